// Copyright: colocation.kubernetes contributors
// Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)

// Parts of a real kubelet, for tests: its own code writes checkpoints, and its gRPC library serves PodResources.
// It is built in the folder of a Kubernetes that tests/cluster pins.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager/checkpoint"
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
	checkpoints()
}
