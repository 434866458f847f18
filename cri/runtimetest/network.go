package runtimetest

import (
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/cri"
)

// answering is a script that answers every connection to port 8080.
const answering = "trap 'exit 0' TERM; while :; do echo hello | nc -l -p 8080 -w 1; done & wait"

// greeting connects and returns what it reads.
func greeting(address string) string {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	answer, err := io.ReadAll(conn)
	if err != nil && len(answer) == 0 {
		return err.Error()
	}
	return string(answer)
}

// podNetwork checks that a pod can be reached at its address, from the node and from another pod.
func (s suite) podNetwork(t *testing.T) {
	sandbox, _ := s.shell(t, answering, nil)
	status, err := s.runtime.SandboxStatus(s.context(t), sandbox)
	if err != nil || len(status.IPs) == 0 {
		t.Fatalf("SandboxStatus: %+v, %v", status, err)
	}
	address := net.JoinHostPort(status.IPs[0], "8080")
	s.eventually(t, "the node reaches the pod", func() bool { return greeting(address) == "hello\n" })
	_, other := s.shell(t, idle, nil)
	s.eventually(t, "another pod reaches the pod", func() bool {
		return string(s.try(t, other, fmt.Sprintf("nc -w 1 %s 8080 < /dev/null", status.IPs[0])).Stdout) == "hello\n"
	})
	own := s.sh(t, other, "ip -o -4 addr show dev eth0 | tr -s ' ' | cut -d' ' -f4 | cut -d/ -f1")
	if otherStatus, err := s.runtime.ListSandboxes(s.context(t), cri.Filter{ID: s.state(t, other).SandboxID}); err != nil || len(otherStatus) != 1 {
		t.Errorf("ListSandboxes: %v, %v", otherStatus, err)
	} else if told, err := s.runtime.SandboxStatus(s.context(t), otherStatus[0].ID); err != nil || told.IPs[0] != own {
		t.Errorf("the pod has address %s, its status tells %v, %v", own, told.IPs, err)
	}
	if err := s.runtime.StopPodSandbox(s.context(t), sandbox); err != nil {
		t.Fatal(err)
	}
	if got := greeting(address); got == "hello\n" {
		t.Error("a stopped pod answers")
	}
}

func (s suite) portMappings(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	port := free.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // of a TCP listener
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	sandbox, _ := s.shell(t, answering, func(p *cri.SandboxConfig, _ *cri.ContainerConfig) {
		p.Ports = []cri.PortMapping{{Protocol: "TCP", ContainerPort: 8080, HostPort: int32(port)}}
	})
	s.eventually(t, "the node's port leads to the pod", func() bool { return greeting(address) == "hello\n" })
	if err := s.runtime.StopPodSandbox(s.context(t), sandbox); err != nil {
		t.Fatal(err)
	}
	if got := greeting(address); got == "hello\n" {
		t.Error("the port of a stopped pod answers")
	}
}

// failedSandbox checks that a sandbox whose creation failed does not exist, and does not prevent the next attempt.
func (s suite) failedSandbox(t *testing.T) {
	ctx := s.context(t)
	config := pod(t, "pod")
	config.RuntimeHandler = "no-such-handler"
	if s.Prepare != nil {
		s.Prepare(&config)
	}
	if id, err := s.runtime.RunPodSandbox(ctx, config); err == nil {
		t.Errorf("a sandbox %s of a handler that is not there", id)
	}
	list, err := s.runtime.ListSandboxes(ctx, cri.Filter{Labels: config.Labels})
	if err != nil || len(list) != 0 {
		t.Errorf("after a failure there are %v, %v", list, err)
	}
	config.RuntimeHandler = ""
	s.sandbox(t, config)
}
