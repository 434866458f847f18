package refusals

import (
	"fmt"
	"strings"
)

// Refusal is something that can be requested but is not implemented.
type Refusal struct {
	// Asks is what is requested, worded for the README.
	Asks string
	// Fields are the fields that request it, as "Type.Field" of the API's core/v1: only the refusing package reads them
	// and their contents. None are listed if a value or a pair of fields makes the request.
	Fields []string
	// By is the package that refuses it.
	By string
	// Shows is where and how the refusal is visible: what the row's test finds, with the names used there.
	Shows string
}

// List returns everything that is refused.
func List() []Refusal {
	return []Refusal{
		{"volumes of servers other than NFS", servedVolumes(), "kubelet/volume",
			`event FailedMount: MountVolume.SetUp failed for volume "v" : no volume plugin matched: iscsi volumes are not supported`},
		{"resource claims, unless the scheduler has an allocator", []string{"PodSpec.ResourceClaims", "ResourceRequirements.Claims"}, "scheduler",
			`condition PodScheduled=False Unschedulable: 0/1 nodes are available: pod requires resourceclaim "gpu", which this scheduler does not support. preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.`},
		{"the restart of all containers by a rule", nil, "scheduler",
			"condition PodScheduled=False Unschedulable: 0/1 nodes are available: 1 node(s) didn't match Pod's required features. preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."},
		{"the restart of all containers in pods that name their node", nil, "kubelet",
			"phase Failed PodFeatureUnsupported: Pod was rejected: Pod requires node features that are not available: RestartAllContainersOnContainerExits"},
	}
}

// servedVolumes returns the volumes that something other than the node provides.
func servedVolumes() []string {
	var fields []string
	for source := range strings.FieldsSeq(`AWSElasticBlockStore AzureDisk AzureFile CephFS Cinder FC FlexVolume Flocker GCEPersistentDisk GitRepo
		Glusterfs ISCSI PhotonPersistentDisk PortworxVolume Quobyte RBD ScaleIO StorageOS VsphereVolume`) {
		fields = append(fields, "VolumeSource."+source)
	}
	return fields
}

// Markdown renders the list for the README.
func Markdown(list []Refusal) string {
	if len(list) == 0 {
		return "Nothing that pods and nodes can ask for.\n"
	}
	var b strings.Builder
	b.WriteString("| asked for | refused by | what shows |\n|---|---|---|\n")
	for _, r := range list {
		where, how, _ := strings.Cut(r.Shows, ": ")
		fmt.Fprintf(&b, "| %s | [`%s`](%s) | %s: `%s` |\n", r.Asks, r.By, r.By, where, how)
	}
	return b.String()
}
