package wire

import (
	"fmt"
	"strings"

	v1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/cri"
)

func encodeMetadata(m cri.ContainerMetadata) *v1.ContainerMetadata {
	return &v1.ContainerMetadata{Name: m.Name, Attempt: m.Attempt}
}

func decodeMetadata(m *v1.ContainerMetadata) cri.ContainerMetadata {
	return cri.ContainerMetadata{Name: m.GetName(), Attempt: m.GetAttempt()}
}

// EncodeContainerConfig makes the message, or fails with cri.ErrInvalid for a stop signal unknown to CRI.
func EncodeContainerConfig(c cri.ContainerConfig) (*v1.ContainerConfig, error) {
	stop, err := encodeSignal(c.StopSignal)
	if err != nil {
		return nil, err
	}
	return &v1.ContainerConfig{
		Metadata: encodeMetadata(c.Metadata), Image: EncodeImageSpec(c.Image),
		Command: c.Command, Args: c.Args, WorkingDir: c.WorkingDir,
		Envs:   each(c.Env, func(e cri.EnvVar) *v1.KeyValue { return &v1.KeyValue{Key: e.Name, Value: []byte(e.Value)} }),
		Mounts: each(c.Mounts, encodeMount), Devices: each(c.Devices, encodeDevice),
		CDIDevices: each(c.CDIDevices, func(name string) *v1.CDIDevice { return &v1.CDIDevice{Name: name} }),
		Labels:     c.Labels, Annotations: c.Annotations, LogPath: c.LogPath,
		Stdin: c.Stdin, StdinOnce: c.StdinOnce, Tty: c.TTY,
		Linux: &v1.LinuxContainerConfig{
			Resources: EncodeResources(c.Resources), SecurityContext: encodeSecurity(c.Security, c.Namespaces),
		},
		StopSignal: stop,
	}, nil
}

// DecodeContainerConfig reads the message.
func DecodeContainerConfig(c *v1.ContainerConfig) cri.ContainerConfig {
	linux := c.GetLinux()
	return cri.ContainerConfig{
		Metadata: decodeMetadata(c.GetMetadata()), Image: DecodeImageSpec(c.GetImage()),
		Process: cri.Process{
			Command: c.GetCommand(), Args: c.GetArgs(), WorkingDir: c.GetWorkingDir(),
			Env:        each(c.GetEnvs(), func(e *v1.KeyValue) cri.EnvVar { return cri.EnvVar{Name: e.GetKey(), Value: string(e.GetValue())} }),
			StopSignal: decodeSignal(c.GetStopSignal()),
		},
		Stdio:  cri.Stdio{Stdin: c.GetStdin(), StdinOnce: c.GetStdinOnce(), TTY: c.GetTty()},
		Mounts: each(c.GetMounts(), decodeMount), Devices: each(c.GetDevices(), decodeDevice),
		CDIDevices: each(c.GetCDIDevices(), func(d *v1.CDIDevice) string { return d.GetName() }),
		Labels:     c.GetLabels(), Annotations: c.GetAnnotations(), LogPath: c.GetLogPath(),
		Resources:  DecodeResources(linux.GetResources()),
		Namespaces: decodeNamespaces(linux.GetSecurityContext().GetNamespaceOptions()),
		Security:   decodeSecurity(linux.GetSecurityContext()),
	}
}

// encodeSignal finds a signal by its name in Kubernetes, such as "SIGTERM" or "SIGRTMIN+1".
func encodeSignal(name string) (v1.Signal, error) {
	if name == "" {
		return v1.Signal_SIGNAL_RUNTIME_DEFAULT, nil
	}
	signal, ok := v1.Signal_value["SIGNAL_"+strings.NewReplacer("+", "PLUS", "-", "MINUS").Replace(name)]
	if !ok || signal == int32(v1.Signal_SIGNAL_RUNTIME_DEFAULT) {
		return 0, fmt.Errorf("stop signal %q is not known: %w", name, cri.ErrInvalid)
	}
	return v1.Signal(signal), nil
}

func decodeSignal(s v1.Signal) string {
	name, ok := v1.Signal_name[int32(s)]
	if !ok || s == v1.Signal_SIGNAL_RUNTIME_DEFAULT {
		return ""
	}
	return strings.NewReplacer("PLUS", "+", "MINUS", "-").Replace(strings.TrimPrefix(name, "SIGNAL_"))
}

func encodeMount(m cri.Mount) *v1.Mount {
	mount := &v1.Mount{
		ContainerPath: m.ContainerPath, HostPath: m.HostPath, Readonly: m.ReadOnly, RecursiveReadOnly: m.RecursiveReadOnly,
		Propagation: v1.MountPropagation(m.Propagation), SelinuxRelabel: m.SELinuxRelabel,
		UidMappings: each(m.UIDMappings, encodeMapping), GidMappings: each(m.GIDMappings, encodeMapping),
		ImageSubPath: m.ImageSubPath, MountOptions: m.Options,
	}
	if m.Image != nil {
		mount.Image = EncodeImageSpec(*m.Image)
	}
	return mount
}

func decodeMount(m *v1.Mount) cri.Mount {
	mount := cri.Mount{
		ContainerPath: m.GetContainerPath(), HostPath: m.GetHostPath(), ReadOnly: m.GetReadonly(), RecursiveReadOnly: m.GetRecursiveReadOnly(),
		Propagation: cri.MountPropagation(m.GetPropagation()), SELinuxRelabel: m.GetSelinuxRelabel(),
		UIDMappings: each(m.GetUidMappings(), decodeMapping), GIDMappings: each(m.GetGidMappings(), decodeMapping),
		ImageSubPath: m.GetImageSubPath(), Options: m.GetMountOptions(),
	}
	if m.GetImage() != nil {
		image := DecodeImageSpec(m.GetImage())
		mount.Image = &image
	}
	return mount
}

func encodeDevice(d cri.Device) *v1.Device {
	return &v1.Device{ContainerPath: d.ContainerPath, HostPath: d.HostPath, Permissions: d.Permissions}
}

func decodeDevice(d *v1.Device) cri.Device {
	return cri.Device{ContainerPath: d.GetContainerPath(), HostPath: d.GetHostPath(), Permissions: d.GetPermissions()}
}

// EncodeResources makes the message.
func EncodeResources(r cri.Resources) *v1.LinuxContainerResources {
	return &v1.LinuxContainerResources{
		CpuPeriod: r.CPUPeriod, CpuQuota: r.CPUQuota, CpuShares: r.CPUShares,
		MemoryLimitInBytes: r.MemoryLimit, MemorySwapLimitInBytes: r.MemorySwapLimit, OomScoreAdj: r.OOMScoreAdj,
		CpusetCpus: r.CPUs, CpusetMems: r.MemoryNodes,
		HugepageLimits: each(r.Hugepages, func(h cri.HugepageLimit) *v1.HugepageLimit {
			return &v1.HugepageLimit{PageSize: h.PageSize, Limit: h.Limit}
		}),
		Unified: r.Unified,
	}
}

// DecodeResources reads the message.
func DecodeResources(r *v1.LinuxContainerResources) cri.Resources {
	return cri.Resources{
		CPUPeriod: r.GetCpuPeriod(), CPUQuota: r.GetCpuQuota(), CPUShares: r.GetCpuShares(),
		MemoryLimit: r.GetMemoryLimitInBytes(), MemorySwapLimit: r.GetMemorySwapLimitInBytes(), OOMScoreAdj: r.GetOomScoreAdj(),
		CPUs: r.GetCpusetCpus(), MemoryNodes: r.GetCpusetMems(),
		Hugepages: each(r.GetHugepageLimits(), func(h *v1.HugepageLimit) cri.HugepageLimit {
			return cri.HugepageLimit{PageSize: h.GetPageSize(), Limit: h.GetLimit()}
		}),
		Unified: r.GetUnified(),
	}
}

// EncodeContainer makes the message of a container in a list.
func EncodeContainer(c cri.Container) *v1.Container {
	return &v1.Container{
		Id: c.ID, PodSandboxId: c.SandboxID, Metadata: encodeMetadata(c.Metadata), Image: EncodeImageSpec(c.Image),
		ImageRef: c.ImageRef, ImageId: c.ImageID, State: v1.ContainerState(c.State), CreatedAt: encodeTime(c.CreatedAt),
		Labels: c.Labels, Annotations: c.Annotations,
	}
}

// DecodeContainer reads the message of a container in a list.
func DecodeContainer(c *v1.Container) cri.Container {
	return cri.Container{
		ID: c.GetId(), SandboxID: c.GetPodSandboxId(), Metadata: decodeMetadata(c.GetMetadata()), Image: DecodeImageSpec(c.GetImage()),
		ImageRef: c.GetImageRef(), ImageID: c.GetImageId(), State: decodeState(c.GetState()), CreatedAt: decodeTime(c.GetCreatedAt()),
		Labels: c.GetLabels(), Annotations: c.GetAnnotations(),
	}
}

func decodeState(s v1.ContainerState) cri.ContainerState {
	if s < v1.ContainerState_CONTAINER_CREATED || s > v1.ContainerState_CONTAINER_EXITED {
		return cri.ContainerUnknown
	}
	return cri.ContainerState(s)
}

// EncodeContainerFilter makes the filter's message.
func EncodeContainerFilter(f cri.Filter) *v1.ContainerFilter {
	return &v1.ContainerFilter{Id: f.ID, PodSandboxId: f.SandboxID, LabelSelector: f.Labels}
}

// DecodeContainerFilter reads the filter's message, except a state in it.
func DecodeContainerFilter(f *v1.ContainerFilter) cri.Filter {
	return cri.Filter{ID: f.GetId(), SandboxID: f.GetPodSandboxId(), Labels: f.GetLabelSelector()}
}

// EncodeContainerStatus makes the message of a container's status, which does not include its sandbox.
func EncodeContainerStatus(c cri.ContainerStatus) *v1.ContainerStatus {
	stop, err := encodeSignal(c.StopSignal)
	if err != nil { // encode the rest of the status
		stop = v1.Signal_SIGNAL_RUNTIME_DEFAULT
	}
	status := &v1.ContainerStatus{
		Id: c.ID, Metadata: encodeMetadata(c.Metadata), State: v1.ContainerState(c.State),
		CreatedAt: encodeTime(c.CreatedAt), StartedAt: encodeTime(c.StartedAt), FinishedAt: encodeTime(c.FinishedAt),
		ExitCode: c.ExitCode, Reason: c.Reason, Message: c.Message,
		Image: EncodeImageSpec(c.Image), ImageRef: c.ImageRef, ImageId: c.ImageID,
		Labels: c.Labels, Annotations: c.Annotations, Mounts: each(c.Mounts, encodeMount), LogPath: c.LogPath,
		StopSignal: stop,
	}
	if c.Resources != nil {
		status.Resources = &v1.ContainerResources{Linux: EncodeResources(*c.Resources)}
	}
	if c.User != nil {
		status.User = &v1.ContainerUser{Linux: &v1.LinuxContainerUser{Uid: c.User.UID, Gid: c.User.GID, SupplementalGroups: c.User.SupplementalGroups}}
	}
	return status
}

// DecodeContainerStatus reads the message of a container's status, all but the sandbox.
func DecodeContainerStatus(c *v1.ContainerStatus) cri.ContainerStatus {
	status := cri.ContainerStatus{
		Container: cri.Container{
			ID: c.GetId(), Metadata: decodeMetadata(c.GetMetadata()), State: decodeState(c.GetState()),
			Image: DecodeImageSpec(c.GetImage()), ImageRef: c.GetImageRef(), ImageID: c.GetImageId(),
			CreatedAt: decodeTime(c.GetCreatedAt()), Labels: c.GetLabels(), Annotations: c.GetAnnotations(),
		},
		StartedAt: decodeTime(c.GetStartedAt()), FinishedAt: decodeTime(c.GetFinishedAt()),
		ExitCode: c.GetExitCode(), Reason: c.GetReason(), Message: c.GetMessage(),
		LogPath: c.GetLogPath(), Mounts: each(c.GetMounts(), decodeMount), StopSignal: decodeSignal(c.GetStopSignal()),
	}
	if linux := c.GetResources().GetLinux(); linux != nil {
		resources := DecodeResources(linux)
		status.Resources = &resources
	}
	if user := c.GetUser().GetLinux(); user != nil {
		status.User = &cri.User{UID: user.GetUid(), GID: user.GetGid(), SupplementalGroups: user.GetSupplementalGroups()}
	}
	return status
}
