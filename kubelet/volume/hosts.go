package volume

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/kubelet"
)

// containerHostsFile is the path of the hosts file in containers.
const containerHostsFile = "/etc/hosts"

// hostsMount writes the pod's hosts file, if necessary, and mounts it.
func (v *Volumes) hostsMount(r kubelet.MountRequest) (cri.Mount, error) {
	var content []byte
	if r.Pod.Spec.HostNetwork {
		node, err := os.ReadFile(v.options.HostsFile)
		if err != nil {
			return cri.Mount{}, err
		}
		content = NodeHosts(node, r.Pod.Spec.HostAliases)
	} else {
		content = PodHosts(r.IPs, r.Hostname, r.Domain, r.Pod.Spec.HostAliases)
	}
	file := filepath.Join(v.podDir(r.Pod.UID), "etc-hosts")
	mount := cri.Mount{ContainerPath: containerHostsFile, HostPath: file, SELinuxRelabel: v.options.SELinux}
	// In place, because running containers have mounted this very file.
	if old, err := os.ReadFile(file); err == nil && bytes.Equal(old, content) {
		return mount, v.disk.Chmod(file, 0o644)
	}
	if err := v.disk.MkdirAll(filepath.Dir(file), dirMode); err != nil {
		return cri.Mount{}, err
	}
	return mount, v.disk.WriteFile(file, content, 0o644)
}

// PodHosts returns the hosts file of a pod with its own network. Domain is empty for pods without a subdomain.
func PodHosts(ips []string, hostname, domain string, aliases []corev1.HostAlias) []byte {
	var b bytes.Buffer
	b.WriteString("# Kubernetes-managed hosts file.\n" +
		"127.0.0.1\tlocalhost\n" +
		"::1\tlocalhost ip6-localhost ip6-loopback\n" +
		"fe00::0\tip6-localnet\n" +
		"fe00::0\tip6-mcastprefix\n" +
		"fe00::1\tip6-allnodes\n" +
		"fe00::2\tip6-allrouters\n")
	for _, ip := range ips {
		if domain != "" {
			fmt.Fprintf(&b, "%s\t%s.%s\t%s\n", ip, hostname, domain, hostname)
		} else {
			fmt.Fprintf(&b, "%s\t%s\n", ip, hostname)
		}
	}
	writeAliases(&b, aliases)
	return b.Bytes()
}

// NodeHosts returns the hosts file of a pod on the node's network; node is the node's hosts file.
func NodeHosts(node []byte, aliases []corev1.HostAlias) []byte {
	var b bytes.Buffer
	b.WriteString("# Kubernetes-managed hosts file (host network).\n")
	b.Write(node)
	writeAliases(&b, aliases)
	return b.Bytes()
}

func writeAliases(b *bytes.Buffer, aliases []corev1.HostAlias) {
	if len(aliases) == 0 {
		return
	}
	b.WriteString("\n# Entries added by HostAliases.\n")
	for _, a := range aliases {
		fmt.Fprintf(b, "%s\t%s\n", a.IP, strings.Join(a.Hostnames, "\t"))
	}
}
