// Copyright: colocation.kubernetes contributors
// Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)

// The device manager of a real kubelet, without the rest of it: it takes the registrations of plugins, and pods from
// stdin, a JSON document each, and says on stdout what their containers were given. It is built in the folder of a
// Kubernetes that tests/cluster pins, and looks for plugins where every kubelet does.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sync"

	cadvisor "github.com/google/cadvisor/info/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
)

type question struct {
	Active []*v1.Pod // all that the node has, the new one among them
	Admit  string    // UID of the new one; "" only asks what is offered
}

type given struct {
	IDs         []string
	Environment map[string]string
	CDI         []string
}

type answer struct {
	Offered    map[string]int64 // by resource
	Containers map[string]given
	Error      string
}

type ready struct{}

func (ready) AddSource(string) {}
func (ready) AllReady() bool   { return true }

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// admit does with a pod what the kubelet's admission does: init containers first, and the first error is the pod's end.
func admit(manager *devicemanager.ManagerImpl, pod *v1.Pod) (map[string]given, error) {
	containers := slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers)
	for i := range containers {
		if err := manager.Allocate(pod, &containers[i]); err != nil {
			return nil, err
		}
	}
	found := map[string]given{}
	for i := range containers {
		name := containers[i].Name
		options, err := manager.GetDeviceRunContainerOptions(context.Background(), pod, &containers[i])
		if err != nil {
			return nil, err
		}
		one := given{Environment: map[string]string{}}
		if options != nil {
			for _, env := range options.Envs {
				one.Environment[env.Name] = env.Value
			}
			for _, device := range options.CDIDevices {
				one.CDI = append(one.CDI, device.Name)
			}
		}
		for _, devices := range manager.GetDevices(string(pod.UID), name) {
			for id := range devices {
				one.IDs = append(one.IDs, id)
			}
		}
		found[name] = one
	}
	return found, nil
}

func main() {
	var lock sync.Mutex
	var active []*v1.Pod
	pods := func() []*v1.Pod {
		lock.Lock()
		defer lock.Unlock()
		return active
	}
	manager, err := devicemanager.NewManagerImpl([]cadvisor.Node{{Id: 0}, {Id: 1}}, topologymanager.NewFakeManager())
	fail(err)
	fail(manager.Start(klog.Background(), pods, ready{}, containermap.NewContainerMap(), sets.New[string]()))
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	printed := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var asked question
		fail(json.Unmarshal(lines.Bytes(), &asked))
		lock.Lock()
		active = asked.Active
		lock.Unlock()
		said := answer{Offered: map[string]int64{}}
		for _, pod := range asked.Active {
			if string(pod.UID) == asked.Admit {
				if said.Containers, err = admit(manager, pod); err != nil {
					said.Error = err.Error()
				}
			}
		}
		_, allocatable, _ := manager.GetCapacity()
		for name, count := range allocatable {
			said.Offered[string(name)] = count.Value()
		}
		fail(printed.Encode(said))
	}
}
