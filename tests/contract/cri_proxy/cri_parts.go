// Copyright: colocation.kubernetes contributors
// Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)

// Both ends of the CRI as Kubernetes has them, for tests and benchmarks: its own API and gRPC library serve a runtime that
// runs nothing, and call one. It is built in the folder of a Kubernetes that tests/cluster pins.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const most = 256 << 20

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// runtime remembers what it was asked and answers at once.
type runtime struct {
	api.UnimplementedRuntimeServiceServer
	mutex   sync.Mutex
	lists   map[int]*api.ListContainersResponse
	created [][]byte // the messages as they came, except for what Go does not keep
}

func (r *runtime) Version(context.Context, *api.VersionRequest) (*api.VersionResponse, error) {
	return &api.VersionResponse{Version: "0.1.0", RuntimeName: "double", RuntimeVersion: "v1", RuntimeApiVersion: "v1"}, nil
}

// ListContainers answers with as many bytes as the label "size" wants, in containers of about 1 KiB.
func (r *runtime) ListContainers(_ context.Context, request *api.ListContainersRequest) (*api.ListContainersResponse, error) {
	size, _ := strconv.Atoi(request.GetFilter().GetLabelSelector()["size"])
	r.mutex.Lock()
	defer r.mutex.Unlock()
	answer, found := r.lists[size]
	if !found {
		answer = &api.ListContainersResponse{}
		for n := 0; size > 0; n, size = n+1, size-1024 {
			notes := map[string]string{"filler": strings.Repeat("x", min(size, 1024)*4/5)}
			meta := &api.ContainerMetadata{Name: fmt.Sprintf("container-%d", n)}
			answer.Containers = append(answer.Containers, &api.Container{Id: fmt.Sprintf("%064d", n), Metadata: meta, Annotations: notes})
		}
		r.lists[size] = answer
	}
	return answer, nil
}

func (r *runtime) CreateContainer(ctx context.Context, request *api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
	if request.GetConfig().GetMetadata().GetName() == "refused" {
		detailed, err := status.New(codes.NotFound, "no such image: ☃").WithDetails(&api.VersionRequest{Version: "a detail"})
		fail(err)
		return nil, detailed.Err()
	}
	content, err := proto.Marshal(request)
	fail(err)
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.created = append(r.created, content)
	grpc.SetHeader(ctx, metadata.Pairs("x-head", "er"))
	grpc.SetTrailer(ctx, metadata.Pairs("x-trail", "er"))
	return &api.CreateContainerResponse{ContainerId: strconv.Itoa(len(r.created) - 1)}, nil
}

// ContainerStatus gives back the request that made the container.
func (r *runtime) ContainerStatus(_ context.Context, request *api.ContainerStatusRequest) (*api.ContainerStatusResponse, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	number, err := strconv.Atoi(request.ContainerId)
	if err != nil || number >= len(r.created) {
		return nil, status.Errorf(codes.NotFound, "no container %q", request.ContainerId)
	}
	return &api.ContainerStatusResponse{Info: map[string]string{"request": fmt.Sprintf("%x", r.created[number])}}, nil
}

// ExecSync waits as long as it is allowed to where the command says so, and says its input otherwise.
func (r *runtime) ExecSync(ctx context.Context, request *api.ExecSyncRequest) (*api.ExecSyncResponse, error) {
	if len(request.Cmd) > 0 && request.Cmd[0] == "wait" {
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	return &api.ExecSyncResponse{Stdout: []byte(strings.Join(request.Cmd, ""))}, nil
}

func (r *runtime) StopContainer(context.Context, *api.StopContainerRequest) (*api.StopContainerResponse, error) {
	return &api.StopContainerResponse{}, nil
}

func (r *runtime) GetContainerEvents(_ *api.GetEventsRequest, stream grpc.ServerStreamingServer[api.ContainerEventResponse]) error {
	for n := range 1000 {
		if err := stream.Send(&api.ContainerEventResponse{ContainerId: strconv.Itoa(n)}); err != nil {
			return err
		}
	}
	<-stream.Context().Done()
	return nil
}

type images struct {
	api.UnimplementedImageServiceServer
}

func (images) PullImage(_ context.Context, request *api.PullImageRequest) (*api.PullImageResponse, error) {
	return &api.PullImageResponse{ImageRef: request.GetImage().GetImage()}, nil
}

func serve(socket string) {
	listener, err := net.Listen("unix", socket)
	fail(err)
	server := grpc.NewServer(grpc.MaxRecvMsgSize(most), grpc.MaxSendMsgSize(most))
	api.RegisterRuntimeServiceServer(server, &runtime{lists: map[int]*api.ListContainersResponse{}})
	api.RegisterImageServiceServer(server, images{})
	fmt.Println("ready")
	fail(server.Serve(listener))
}

// dial does it as the kubelet's client does.
func dial(socket string) *grpc.ClientConn {
	unix := func(ctx context.Context, path string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}
	connection, err := grpc.NewClient("passthrough:///"+socket, grpc.WithContextDialer(unix), grpc.WithAuthority("localhost"),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(most), grpc.MaxCallSendMsgSize(most)))
	fail(err)
	return connection
}

func limited(seconds time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), seconds*time.Second)
}

func size(bytes int) *api.ListContainersRequest {
	return &api.ListContainersRequest{Filter: &api.ContainerFilter{LabelSelector: map[string]string{"size": strconv.Itoa(bytes)}}}
}

func container(name string, filler int) *api.CreateContainerRequest {
	linux := &api.LinuxContainerConfig{
		Resources:       &api.LinuxContainerResources{CpuShares: 2048, CpuQuota: 200000, CpuPeriod: 100000, Unified: map[string]string{"a": "b"}},
		SecurityContext: &api.LinuxContainerSecurityContext{Privileged: true, RunAsUsername: "me"},
	}
	return &api.CreateContainerRequest{
		PodSandboxId: "s-1",
		Config: &api.ContainerConfig{
			Metadata: &api.ContainerMetadata{Name: name, Attempt: 2},
			Image:    &api.ImageSpec{Image: "image"},
			Envs:     []*api.KeyValue{{Key: "FILLER", Value: []byte(strings.Repeat("e", filler))}},
			Mounts:   []*api.Mount{{ContainerPath: "/a", HostPath: "/b", Readonly: true}},
			Linux:    linux,
		},
		SandboxConfig: &api.PodSandboxConfig{Metadata: &api.PodSandboxMetadata{Name: "pod", Uid: "uid", Namespace: "space"}},
	}
}

// live makes all kinds of calls, checks what an untouched path would give, and prints what was created as it came.
func live(socket string) {
	connection := dial(socket)
	client, pictures := api.NewRuntimeServiceClient(connection), api.NewImageServiceClient(connection)
	ctx, cancel := limited(60)
	defer cancel()
	expect := func(holds bool, what string) {
		if !holds {
			fail(fmt.Errorf("not as it should be: %s", what))
		}
	}
	stream, err := client.GetContainerEvents(ctx, &api.GetEventsRequest{})
	fail(err)
	for n := range 1000 {
		event, err := stream.Recv()
		fail(err)
		expect(event.ContainerId == strconv.Itoa(n), "the order of events")
	}
	version, err := client.Version(ctx, &api.VersionRequest{})
	fail(err)
	expect(version.RuntimeName == "double", "Version")
	reference, err := pictures.PullImage(ctx, &api.PullImageRequest{Image: &api.ImageSpec{Image: "registry/image"}})
	fail(err)
	expect(reference.ImageRef == "registry/image", "the other service")
	for _, bytes := range []int{0, 1 << 10, 100 << 10, 1 << 20, 64 << 20} {
		list, err := client.ListContainers(ctx, size(bytes))
		fail(err)
		expect(len(list.Containers) == (bytes+1023)/1024, "ListContainers")
	}
	said, err := client.ExecSync(ctx, &api.ExecSyncRequest{Cmd: []string{strings.Repeat("s", 64<<20)}})
	fail(err)
	expect(bytes.Count(said.Stdout, []byte("s")) == 64<<20, "64 MiB there and back")
	_, err = client.UpdateRuntimeConfig(ctx, &api.UpdateRuntimeConfigRequest{})
	expect(status.Code(err) == codes.Unimplemented, "what a runtime does not know")
	_, err = client.CreateContainer(ctx, container("refused", 0))
	refused, _ := status.FromError(err)
	expect(refused.Code() == codes.NotFound && refused.Message() == "no such image: ☃", "status and message")
	expect(len(refused.Details()) == 1 && refused.Details()[0].(*api.VersionRequest).Version == "a detail", "details of a status")
	short, end := context.WithTimeout(ctx, 200*time.Millisecond)
	_, err = client.ExecSync(short, &api.ExecSyncRequest{Cmd: []string{"wait"}})
	end()
	expect(status.Code(err) == codes.DeadlineExceeded, "a deadline")
	quit, leave := context.WithCancel(ctx)
	time.AfterFunc(100*time.Millisecond, leave)
	_, err = client.ExecSync(quit, &api.ExecSyncRequest{Cmd: []string{"wait"}})
	expect(status.Code(err) == codes.Canceled, "a cancellation")
	_, err = client.StopContainer(ctx, &api.StopContainerRequest{ContainerId: "1"})
	fail(err)
	fail(stream.CloseSend())
	created := create(ctx, client, expect)
	fail(json.NewEncoder(os.Stdout).Encode(created))
}

// create makes containers of several sizes, some at once, and gives the requests as sent and as the runtime got them.
func create(ctx context.Context, client api.RuntimeServiceClient, expect func(bool, string)) [][2]string {
	fillers := []int{0, 10, 16_000, 16_384, 40_000, 65_535, 200_000, 1_000_000, 3_000_000, 100, 100, 100, 100, 100_000, 100_000}
	created := make([][2]string, len(fillers))
	var group sync.WaitGroup
	for n, filler := range fillers {
		group.Add(1)
		one := func() {
			defer group.Done()
			request := container(fmt.Sprintf("c%d", n), filler)
			var header, trailer metadata.MD
			answer, err := client.CreateContainer(ctx, request, grpc.Header(&header), grpc.Trailer(&trailer))
			fail(err)
			expect(len(header.Get("x-head")) == 1 && len(trailer.Get("x-trail")) == 1, "metadata")
			got, err := client.ContainerStatus(ctx, &api.ContainerStatusRequest{ContainerId: answer.ContainerId})
			fail(err)
			content, err := proto.Marshal(request)
			fail(err)
			created[n] = [2]string{fmt.Sprintf("%x", content), got.Info["request"]}
		}
		if n < 8 {
			one()
		} else {
			go one()
		}
	}
	group.Wait()
	return created
}

type measurement struct {
	Sockets []string
	Call    string
	Bytes   int
	Flying  int // calls at a time
	Calls   int // in a round, on each socket
	Rounds  int
}

type result struct {
	Nanoseconds [][]int64 // by socket
	Seconds     [][]float64
}

// measure reads what is wanted and prints how long each call took; sockets take turns.
func measure() {
	content, err := io.ReadAll(os.Stdin)
	fail(err)
	var wanted measurement
	fail(json.Unmarshal(content, &wanted))
	var clients []api.RuntimeServiceClient
	for _, socket := range wanted.Sockets {
		clients = append(clients, api.NewRuntimeServiceClient(dial(socket)))
	}
	found := result{make([][]int64, len(clients)), make([][]float64, len(clients))}
	for round := range wanted.Rounds + 1 {
		for turn := range clients {
			n := (turn + round) % len(clients)
			times, seconds := burst(clients[n], wanted)
			if round > 0 { // the first warms up
				found.Nanoseconds[n] = append(found.Nanoseconds[n], times...)
				found.Seconds[n] = append(found.Seconds[n], seconds)
			}
		}
	}
	fail(json.NewEncoder(os.Stdout).Encode(found))
}

func burst(client api.RuntimeServiceClient, wanted measurement) ([]int64, float64) {
	call := map[string]func(context.Context) error{
		"Version": func(ctx context.Context) error {
			_, err := client.Version(ctx, &api.VersionRequest{})
			return err
		},
		"ListContainers": func(ctx context.Context) error {
			_, err := client.ListContainers(ctx, size(wanted.Bytes))
			return err
		},
		"CreateContainer": func(ctx context.Context) error {
			_, err := client.CreateContainer(ctx, container("c", wanted.Bytes))
			return err
		},
	}[wanted.Call]
	times := make([]int64, wanted.Calls)
	next := make(chan int, wanted.Calls)
	for n := range wanted.Calls {
		next <- n
	}
	close(next)
	var group sync.WaitGroup
	began := time.Now()
	for range wanted.Flying {
		group.Add(1)
		go func() {
			defer group.Done()
			for n := range next {
				start := time.Now()
				ctx, cancel := limited(120) // as the kubelet does for each call
				fail(call(ctx))
				cancel()
				times[n] = time.Since(start).Nanoseconds()
			}
		}()
	}
	group.Wait()
	return times, time.Since(began).Seconds()
}

func main() {
	switch {
	case len(os.Args) == 3 && os.Args[1] == "serve":
		serve(os.Args[2])
	case len(os.Args) == 3 && os.Args[1] == "live":
		live(os.Args[2])
	case len(os.Args) == 2 && os.Args[1] == "measure":
		measure()
	default:
		fail(fmt.Errorf("serve SOCKET, live SOCKET or measure"))
	}
}
