package main

import (
	"errors"
	"flag"
	"fmt"
	"slices"

	"github.com/keelson-dev/keelson/node/host"
	"github.com/keelson-dev/keelson/node/kubeletconfig"
)

// kubeletFile is what the kubelet of a node of real containers is told by a file.
type kubeletFile struct {
	file    string
	pinning host.Pinning
}

func (k *kubeletFile) define(f *flag.FlagSet) { f.StringVar(&k.file, "kubelet-config", "", "") }

// check reads the file. What this program itself decides about its nodes cannot be in it.
func (k *kubeletFile) check(s *settings) error {
	if k.file == "" {
		return nil
	}
	if s.runtime != "containerd" || s.nodes != 1 || s.hosts.kind == "netns" {
		return errors.New("--kubelet-config is for the only node of real containers: several would give away the same CPUs; add --runtime containerd")
	}
	c, err := kubeletconfig.Open(k.file)
	if err != nil {
		return fmt.Errorf("--kubelet-config: %w", err)
	}
	k.pinning = c.Host.Pinning
	for _, name := range c.Fields {
		if !slices.Contains(pinningFields(), name) {
			return fmt.Errorf("--kubelet-config %s: %s is decided by this program: only CPUs, memory and what is reserved can be configured", k.file, name)
		}
	}
	return nil
}

// pinningFields are the fields of a KubeletConfiguration that a node here takes from a file.
func pinningFields() []string {
	return []string{
		"apiVersion", "kind", "systemReserved", "kubeReserved", "reservedSystemCPUs", "cpuManagerPolicy", "cpuManagerPolicyOptions",
		"cpuManagerReconcilePeriod", "memoryManagerPolicy", "reservedMemory", "topologyManagerPolicy", "topologyManagerScope",
		"topologyManagerPolicyOptions",
	}
}
