package decision

import (
	"reflect"

	"github.com/keelson-dev/keelson/cri"
)

// Observation is the state of one pod in the runtime.
type Observation struct {
	Sandboxes  []cri.SandboxStatus   // the newest first
	Containers []cri.ContainerStatus // of all sandboxes
}

// Equal reports whether nothing has changed.
func (o Observation) Equal(other Observation) bool { return reflect.DeepEqual(o, other) }

// Latest returns the newest container of that name, or nil.
func (o Observation) Latest(name string) *cri.ContainerStatus {
	for i := range o.Containers {
		if o.Containers[i].Metadata.Name == name {
			return &o.Containers[i]
		}
	}
	return nil
}

// LatestExited returns the newest container of that name that has exited, or nil.
func (o Observation) LatestExited(name string) *cri.ContainerStatus {
	for i := range o.Containers {
		c := &o.Containers[i]
		if c.Metadata.Name == name && c.State == cri.ContainerExited {
			return c
		}
	}
	return nil
}

// Sandbox returns the newest sandbox if it is ready: the one that is in use.
func (o Observation) Sandbox() *cri.SandboxStatus {
	if len(o.Sandboxes) == 0 || o.Sandboxes[0].State != cri.SandboxReady {
		return nil
	}
	return &o.Sandboxes[0]
}

// Active returns the newest container of that name in the sandbox that is in use, or nil.
func (o Observation) Active(name string) *cri.ContainerStatus {
	sandbox := o.Sandbox()
	if sandbox == nil {
		return nil
	}
	for i := range o.Containers {
		if c := &o.Containers[i]; c.Metadata.Name == name && c.SandboxID == sandbox.ID {
			return c
		}
	}
	return nil
}

// Running returns the containers that run or may run.
func (o Observation) Running() []cri.ContainerStatus {
	var list []cri.ContainerStatus
	for _, c := range o.Containers {
		if mayRun(&c) {
			list = append(list, c)
		}
	}
	return list
}

func mayRun(c *cri.ContainerStatus) bool {
	return c.State == cri.ContainerRunning || c.State == cri.ContainerUnknown
}

// IPs returns the addresses of the sandbox that is in use.
func (o Observation) IPs() []string {
	if s := o.Sandbox(); s != nil {
		return s.IPs
	}
	return nil
}
