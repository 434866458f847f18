package kubelet

import (
	"cmp"
	"maps"
	"path"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/kubelet/decision"
	"github.com/keelson-dev/keelson/kubelet/security"
)

// Annotations that let a later kubelet recover what it needs to know about a container.
const (
	annotationRestartCount            = "io.kubernetes.container.restartCount"
	annotationMessagePath             = "io.kubernetes.container.terminationMessagePath"
	annotationMessagePolicy           = "io.kubernetes.container.terminationMessagePolicy"
	annotationPodGrace                = "io.kubernetes.pod.terminationGracePeriod"
	podLogsDirectory                  = "/var/log/pods"
	defaultContainerMessagePath       = "/dev/termination-log"
	sharesPerCPU                int64 = 1024
	quotaPeriod                 int64 = 100_000
)

// sandboxConfig is the part of the sandbox's configuration that follows from the pod's spec.
func sandboxConfig(pod *corev1.Pod, attempt uint32, logDir string) cri.SandboxConfig {
	labels := maps.Clone(pod.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[cri.LabelPodName] = pod.Name
	labels[cri.LabelPodNamespace] = pod.Namespace
	labels[cri.LabelPodUID] = string(pod.UID)
	config := cri.SandboxConfig{
		Metadata: cri.SandboxMetadata{
			Name: pod.Name, Namespace: pod.Namespace, UID: string(pod.UID), Attempt: attempt,
		},
		LogDirectory: podLogDir(logDir, pod),
		Labels:       labels,
		Annotations:  maps.Clone(pod.Annotations),
	}
	if !pod.Spec.HostNetwork {
		config.Ports = portMappings(pod)
	}
	config.Sysctls = security.Sysctls(pod)
	return config
}

// podLogDir is the directory of a pod's container logs.
func podLogDir(dir string, pod *corev1.Pod) string {
	return path.Join(cmp.Or(dir, podLogsDirectory), pod.Namespace+"_"+pod.Name+"_"+string(pod.UID))
}

// hostname is the pod's hostname, cut to the 63 bytes that Linux allows.
func hostname(pod *corev1.Pod) string {
	name := pod.Spec.Hostname
	if name == "" {
		name = pod.Name
	}
	if len(name) > 63 {
		name = name[:63]
		for len(name) > 0 && (name[len(name)-1] == '-' || name[len(name)-1] == '.') {
			name = name[:len(name)-1]
		}
	}
	return name
}

func portMappings(pod *corev1.Pod) []cri.PortMapping {
	var list []cri.PortMapping
	for _, c := range pod.Spec.Containers {
		for _, p := range c.Ports {
			list = append(list, cri.PortMapping{
				Protocol: string(p.Protocol), ContainerPort: p.ContainerPort,
				HostPort: p.HostPort, HostIP: p.HostIP,
			})
		}
	}
	return list
}

func namespaces(pod *corev1.Pod) cri.Namespaces {
	n := cri.Namespaces{PID: cri.NamespaceContainer}
	if pod.Spec.ShareProcessNamespace != nil && *pod.Spec.ShareProcessNamespace {
		n.PID = cri.NamespacePod
	}
	if pod.Spec.HostPID {
		n.PID = cri.NamespaceNode
	}
	if pod.Spec.HostIPC {
		n.IPC = cri.NamespaceNode
	}
	if pod.Spec.HostNetwork {
		n.Network = cri.NamespaceNode
	}
	return n
}

// containerConfig is the part of a container's configuration that follows from the pod's spec. Attempt counts the
// container's restarts.
func containerConfig(pod *corev1.Pod, c *corev1.Container, attempt uint32, ref string) cri.ContainerConfig {
	messagePath := c.TerminationMessagePath
	if messagePath == "" {
		messagePath = defaultContainerMessagePath
	}
	annotations := map[string]string{
		decision.AnnotationHash: decision.Hash(c),
		annotationRestartCount:  strconv.FormatUint(uint64(attempt), 10),
		annotationMessagePath:   messagePath,
		annotationMessagePolicy: string(c.TerminationMessagePolicy),
	}
	if grace := pod.Spec.TerminationGracePeriodSeconds; grace != nil {
		annotations[annotationPodGrace] = strconv.FormatInt(*grace, 10)
	}
	return cri.ContainerConfig{
		Metadata: cri.ContainerMetadata{Name: c.Name, Attempt: attempt},
		Image:    cri.ImageSpec{Image: ref, UserSpecified: c.Image},
		Process: cri.Process{
			Command: c.Command, Args: c.Args, WorkingDir: c.WorkingDir, StopSignal: security.StopSignal(c),
		},
		Stdio: cri.Stdio{Stdin: c.Stdin, StdinOnce: c.StdinOnce, TTY: c.TTY},
		Labels: map[string]string{
			cri.LabelPodName:       pod.Name,
			cri.LabelPodNamespace:  pod.Namespace,
			cri.LabelPodUID:        string(pod.UID),
			cri.LabelContainerName: c.Name,
		},
		Annotations: annotations,
		LogPath:     path.Join(c.Name, strconv.FormatUint(uint64(attempt), 10)+".log"),
	}
}
