// Copyright: colocation.kubernetes contributors
// Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)

// Parts of a real kubelet, for tests: its own code writes checkpoints, and its gRPC library serves PodResources.
// It is built in the folder of a Kubernetes that tests/cluster pins.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net"
	"os"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager/checkpoint"
	"k8s.io/utils/dump"
)

type wanted struct {
	Entries    []checkpoint.PodDevicesEntry
	Registered map[string][]string
	Response   *pluginapi.ContainerAllocateResponse // for every entry that has none
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// checkpoints reads a list of what is wanted and prints the list of checkpoint files.
func checkpoints() {
	var list []wanted
	fail(json.NewDecoder(os.Stdin).Decode(&list))
	files := []string{}
	for _, one := range list {
		for i := range one.Entries {
			if one.Response != nil {
				content, err := proto.Marshal(one.Response)
				fail(err)
				one.Entries[i].AllocResp = content
			}
		}
		content, err := checkpoint.New(one.Entries, one.Registered).MarshalCheckpoint()
		fail(err)
		files = append(files, string(content))
	}
	fail(json.NewEncoder(os.Stdout).Encode(files))
}

// Before Kubernetes 1.20 an entry had a list of devices; the types had the names that they have now.
type PodDevicesEntryV1 struct {
	PodUID        string
	ContainerName string
	ResourceName  string
	DeviceIDs     []string
	AllocResp     []byte
}

type checkpointDataV1 struct {
	PodDeviceEntries  []PodDevicesEntryV1
	RegisteredDevices map[string][]string
}

// oldCheckpoints reads a list of data and prints files of the old format, hashed with the library that kubelets use.
func oldCheckpoints() {
	var list []checkpointDataV1
	fail(json.NewDecoder(os.Stdin).Decode(&list))
	files := []string{}
	names := strings.NewReplacer("main.checkpointDataV1", "checkpoint.checkpointData", "main.PodDevicesEntryV1", "checkpoint.PodDevicesEntry")
	for _, data := range list {
		hash := fnv.New32a()
		fmt.Fprint(hash, names.Replace(dump.ForHash(data)))
		content, err := json.Marshal(map[string]any{"Data": data, "Checksum": hash.Sum32()})
		fail(err)
		files = append(files, string(content))
	}
	fail(json.NewEncoder(os.Stdout).Encode(files))
}

type lister struct {
	podresources.UnimplementedPodResourcesListerServer
	answer *podresources.ListPodResourcesResponse
}

func (l lister) List(context.Context, *podresources.ListPodResourcesRequest) (*podresources.ListPodResourcesResponse, error) {
	return l.answer, nil
}

// serve reads an answer and serves it at a socket until it is ended.
func serve(socket string) {
	answer := &podresources.ListPodResourcesResponse{}
	fail(json.NewDecoder(os.Stdin).Decode(answer))
	listener, err := net.Listen("unix", socket)
	fail(err)
	server := grpc.NewServer()
	podresources.RegisterPodResourcesListerServer(server, lister{answer: answer})
	fmt.Println("ready")
	fail(server.Serve(listener))
}

func main() {
	if len(os.Args) == 3 && os.Args[1] == "serve" {
		serve(os.Args[2])
		return
	}
	if len(os.Args) == 2 && os.Args[1] == "old" {
		oldCheckpoints()
		return
	}
	checkpoints()
}
