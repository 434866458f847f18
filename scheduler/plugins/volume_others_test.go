package plugins_test

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/plugins"
)

func gcePD(name string, readOnly bool) corev1.VolumeSource {
	return corev1.VolumeSource{GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{PDName: name, ReadOnly: readOnly}}
}

func ebs(id string) corev1.VolumeSource {
	return corev1.VolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: id}}
}

func iscsi(name string, readOnly bool) corev1.VolumeSource {
	return corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{IQN: name, ReadOnly: readOnly}}
}

func rbd(monitor, pool, image string, readOnly bool) corev1.VolumeSource {
	return corev1.VolumeSource{RBD: &corev1.RBDVolumeSource{CephMonitors: []string{"m", monitor}, RBDPool: pool, RBDImage: image, ReadOnly: readOnly}}
}

func once(c *corev1.PersistentVolumeClaim) {
	c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
}

func TestVolumeRestrictions(t *testing.T) {
	const (
		busy = "node(s) had no available disk"
		used = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
	)
	none := stocked()
	disks := func(a, b corev1.VolumeSource, want *scheduler.Refusal) placing {
		other := inline(b)
		other.Name, other.UID = "q", "q"
		return placing{none, inline(a), nil, []*corev1.Pod{other}, want}
	}
	other := func(claims ...string) []*corev1.Pod {
		p := using(claims...)
		p.Name, p.UID = "q", "q"
		return []*corev1.Pod{p}
	}
	elsewhere := other("c")
	elsewhere[0].Namespace = "other"
	apart := rbd("m", "p", "i", false)
	apart.RBD.CephMonitors = []string{"x"}
	both := using("c")
	both.Spec.Volumes = append(both.Spec.Volumes, inline(ebs("a")).Spec.Volumes...)
	withDisk := other("c")
	withDisk[0].Spec.Volumes = append(withDisk[0].Spec.Volumes, inline(ebs("a")).Spec.Volumes...)
	kinds := []corev1.VolumeSource{gcePD("a", false), ebs("a"), iscsi("a", false), rbd("m", "a", "a", false), {EmptyDir: &corev1.EmptyDirVolumeSource{}}}
	others := map[string]placing{}
	for i, a := range kinds {
		for k, b := range kinds {
			if i != k {
				others[fmt.Sprint("disks of kinds ", i, k)] = disks(a, b, nil)
			}
		}
	}
	decides(t, plugins.VolumeRestrictions{}, others)
	decides(t, plugins.VolumeRestrictions{}, map[string]placing{
		"a GCE PD":                 disks(gcePD("a", false), gcePD("a", true), refused(busy)),
		"a GCE PD, written here":   disks(gcePD("a", true), gcePD("a", false), refused(busy)),
		"a GCE PD, for reading":    disks(gcePD("a", true), gcePD("a", true), nil),
		"another GCE PD":           disks(gcePD("a", false), gcePD("b", false), nil),
		"an EBS volume":            disks(ebs("a"), ebs("a"), refused(busy)),
		"another EBS volume":       disks(ebs("a"), ebs("b"), nil),
		"an iSCSI disk":            disks(iscsi("a", true), iscsi("a", false), refused(busy)),
		"an iSCSI disk, written":   disks(iscsi("a", false), iscsi("a", true), refused(busy)),
		"an iSCSI disk, to read":   disks(iscsi("a", true), iscsi("a", true), nil),
		"another iSCSI disk":       disks(iscsi("a", false), iscsi("b", false), nil),
		"an RBD image":             disks(rbd("x", "p", "i", false), rbd("y", "p", "i", true), refused(busy)),
		"an RBD image, written":    disks(rbd("x", "p", "i", true), rbd("y", "p", "i", false), refused(busy)),
		"an RBD image, to read":    disks(rbd("x", "p", "i", true), rbd("y", "p", "i", true), nil),
		"another RBD image":        disks(rbd("x", "p", "i", false), rbd("x", "p", "j", false), nil),
		"an image of another pool": disks(rbd("x", "p", "i", false), rbd("x", "q", "i", false), nil),
		"another Ceph":             disks(apart, rbd("y", "p", "i", false), nil),
		"a shared claim":           {stocked(claimed("c", "now")), using("c"), nil, other("c"), nil},
		"a claim in use":           {stocked(claimed("c", "now", once)), using("c"), nil, other("c"), refused(used)},
		"the second claim in use":  {stocked(claimed("c", "now"), claimed("d", "now", once)), using("c", "d"), nil, other("d"), refused(used)},
		"a claim not in use":       {stocked(claimed("c", "now", once), claimed("d", "now", once)), using("c"), nil, other("d"), nil},
		"a claim of its name":      {stocked(claimed("c", "now", once)), using("c"), nil, elsewhere, nil},
		"a missing claim":          {stocked(), using("c"), nil, nil, never(`persistentvolumeclaim "c" not found`)},
		"another missing":          {stocked(claimed("c", "now", once)), using("c", "d"), nil, other("c"), never(`persistentvolumeclaim "d" not found`)},
		"an ephemeral volume":      {stocked(), ephemeral(), nil, nil, nil},
		"disk and claim":           {stocked(claimed("c", "now", once)), both, nil, withDisk, refused(busy)},
	})
	p := using("c")
	p.Spec.Volumes = append(p.Spec.Volumes, inline(ebs("a")).Spec.Volumes...)
	gone := func(p *corev1.Pod) scheduler.Event {
		return scheduler.Event{Kind: scheduler.AssignedPodDeleted, OldPod: p}
	}
	far := claimed("c", "now")
	far.Namespace = "other"
	helps(t, plugins.VolumeRestrictions{}, p, map[string]struct {
		event scheduler.Event
		want  bool
	}{
		"a pod with the claim":  {gone(other("c")[0]), true},
		"a pod with another":    {gone(other("d")[0]), false},
		"a pod of another name": {gone(elsewhere[0]), false},
		"a pod with the disk":   {gone(inline(ebs("a"))), true},
		"a pod without":         {gone(using()), false},
		"a node":                {scheduler.Event{Kind: scheduler.NodeAdded}, true},
		"its claim":             {happened(scheduler.ObjectAdded, nil, claimed("c", "now")), true},
		"another claim":         {happened(scheduler.ObjectAdded, nil, claimed("d", "now")), false},
		"a claim elsewhere":     {happened(scheduler.ObjectAdded, nil, far), false},
		"its claim, updated":    {happened(scheduler.ObjectUpdated, far, claimed("c", "now")), false},
		"a volume":              {happened(scheduler.ObjectAdded, nil, disk("c", "1Gi")), false},
	})
}

func TestVolumeZone(t *testing.T) {
	zone := func(pairs ...string) func(*corev1.PersistentVolume) {
		return func(pv *corev1.PersistentVolume) { pv.Labels = labeled(pairs...).Labels }
	}
	refusal := never("node(s) had no available volume zone")
	const (
		key, region = corev1.LabelTopologyZone, corev1.LabelTopologyRegion
		old         = corev1.LabelFailureDomainBetaZone
		oldRegion   = corev1.LabelFailureDomainBetaRegion
	)
	of := func(pv, node []string, want *scheduler.Refusal) placing {
		return placing{stocked(claimed("c", "now", has("pv")), disk("pv", "1Gi", zone(pv...))), using("c"), labeled(node...), nil, want}
	}
	unset := class("unset", "x", "")
	unset.VolumeBindingMode = nil
	decides(t, plugins.VolumeZone{}, map[string]placing{
		"in its zone":            of([]string{key, "z"}, []string{key, "z"}, nil),
		"in another zone":        of([]string{key, "z"}, []string{key, "y"}, refusal),
		"in one of its zones":    of([]string{key, "x__z__y"}, []string{key, "y"}, nil),
		"in none of its zones":   of([]string{key, "x__z__y"}, []string{key, "w"}, refusal),
		"spaces":                 of([]string{key, " x __ z"}, []string{key, "z"}, nil),
		"an empty zone":          of([]string{key, "x__"}, []string{key, "z"}, nil),
		"in its region":          of([]string{region, "r"}, []string{region, "r"}, nil),
		"in another region":      of([]string{key, "z", region, "r"}, []string{key, "z", region, "q"}, refusal),
		"with no labels":         of([]string{key, "z"}, nil, nil),
		"with other labels":      of([]string{key, "z"}, []string{region, "r"}, refusal),
		"of an older label":      of([]string{old, "z"}, []string{key, "z"}, nil),
		"of an older region":     of([]string{oldRegion, "r"}, []string{region, "r"}, nil),
		"of the same old label":  of([]string{old, "z"}, []string{old, "z"}, nil),
		"the older label counts": of([]string{old, "z"}, []string{old, "y", key, "z"}, refusal),
		"no volume yet":          {stocked(claimed("c", "late")), using("c"), labeled(key, "z"), nil, nil},
		"never a volume":         {stocked(claimed("c", "now")), using("c"), nil, nil, never("PersistentVolume had no name")},
		"no class":               {stocked(claimed("c", "")), using("c"), nil, nil, never("PersistentVolumeClaim had no pv name and storageClass name")},
		"a missing class":        {stocked(claimed("c", "x")), using("c"), nil, nil, never(`storageclass.storage.k8s.io "x" not found`)},
		"a class with no mode":   {stocked(unset, claimed("c", "unset")), using("c"), nil, nil, never(`VolumeBindingMode not set for StorageClass "unset"`)},
		"a missing claim":        {stocked(), using("c"), nil, nil, never(`persistentvolumeclaim "c" not found`)},
		"a missing volume":       {stocked(claimed("c", "now", has("pv"))), using("c"), nil, nil, never(`persistentvolume "pv" not found`)},
		"a claim with no name":   {stocked(), using(""), nil, nil, never("PersistentVolumeClaim had no name")},
		"no claims":              {stocked(), ephemeral(), nil, nil, nil},
	})
	far := claimed("c", "now")
	far.Namespace = "other"
	late, now := class("l", "x", storagev1.VolumeBindingWaitForFirstConsumer), class("n", "x", storagev1.VolumeBindingImmediate)
	const added, updated = scheduler.ObjectAdded, scheduler.ObjectUpdated
	helps(t, plugins.VolumeZone{}, using("c"), map[string]struct {
		event scheduler.Event
		want  bool
	}{
		"its claim":              {happened(updated, far, claimed("c", "now")), true},
		"another claim":          {happened(added, nil, claimed("d", "now")), false},
		"a claim elsewhere":      {happened(added, nil, far), false},
		"a volume":               {happened(added, nil, disk("pv", "1Gi")), true},
		"a volume, moved":        {happened(updated, disk("pv", "1Gi"), disk("pv", "1Gi", zone(key, "z"))), true},
		"a volume, bound":        {happened(updated, disk("pv", "1Gi", zone(key, "z")), disk("pv", "1Gi", zone(key, "z", "a", "b"))), false},
		"a class that waits":     {happened(added, nil, late), true},
		"a class, updated":       {happened(updated, late, late), false},
		"a class that does not":  {happened(added, nil, now), false},
		"a class without a mode": {happened(added, nil, unset), false},
		"a node":                 {scheduler.Event{Kind: scheduler.NodeAdded}, true},
		"a node's labels":        {scheduler.Event{Kind: scheduler.NodeUpdated, Change: scheduler.NodeLabelsChanged}, true},
		"a node's taints":        {scheduler.Event{Kind: scheduler.NodeUpdated, Change: scheduler.NodeTaintsChanged}, false},
	})
}

// limits returns what drivers say of the node "n", from pairs of a driver and its limit; -1 is none.
func limits(annotation string, pairs ...any) *storagev1.CSINode {
	n := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: map[string]string{corev1.MigratedPluginsAnnotationKey: annotation}}}
	for i := 0; i < len(pairs); i += 2 {
		d := storagev1.CSINodeDriver{Name: pairs[i].(string)}
		if limit := int32(pairs[i+1].(int)); limit >= 0 {
			d.Allocatable = &storagev1.VolumeNodeResources{Count: &limit}
		}
		n.Spec.Drivers = append(n.Spec.Drivers, d)
	}
	return n
}

func attached(driver string, volume *string) *storagev1.VolumeAttachment {
	return &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: storagev1.VolumeAttachmentSpec{
		Attacher: driver, NodeName: "n", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: volume},
	}}
}

func TestNodeVolumeLimits(t *testing.T) {
	const d, ebsDriver = "disk.example.com", "ebs.csi.aws.com"
	full := refused("node(s) exceed max volume count")
	other := func(p *corev1.Pod) []*corev1.Pod {
		p.Name, p.UID = "q", "q"
		return []*corev1.Pod{p}
	}
	c1, v1 := claimed("c", "now", has("v")), disk("v", "1Gi", from(d, "h"))
	c2, v2 := claimed("e", "now", has("w")), disk("w", "1Gi", from(d, "i"))
	picky := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: d}, Spec: storagev1.CSIDriverSpec{PreventPodSchedulingIfMissing: ptr.To(true)}}
	strict := picky.DeepCopy()
	strict.Name = ebsDriver
	share := corev1.VolumeSource{AzureFile: &corev1.AzureFileVolumeSource{SecretName: "s", ShareName: "x"}}
	foreign := ephemeral()
	old := disk("v", "1Gi")
	old.Spec.AWSElasticBlockStore = &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1"}
	oldClass := class("old", "kubernetes.io/aws-ebs", storagev1.VolumeBindingWaitForFirstConsumer)
	const broken = "converting volume(v) from inline to csi: failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume (aws://z/bad)"
	decides(t, plugins.NodeVolumeLimits{}, map[string]placing{
		"no claims":                      {stocked(), using(), nil, nil, nil},
		"no CSI node":                    {stocked(c1, v1), using("c"), nil, nil, nil},
		"no limit":                       {stocked(c1, v1, limits("", d, -1)), using("c"), nil, nil, nil},
		"room":                           {stocked(c1, v1, limits("", d, 1)), using("c"), nil, nil, nil},
		"no room":                        {stocked(c1, v1, limits("", d, 0)), using("c"), nil, nil, full},
		"another's limit":                {stocked(c1, v1, limits("", "x", 0)), using("c"), nil, nil, nil},
		"full":                           {stocked(c1, v1, c2, v2, limits("", d, 1)), using("c"), nil, other(using("e")), full},
		"shared":                         {stocked(c1, v1, limits("", d, 1)), using("c"), nil, other(using("c")), nil},
		"two claims, one room":           {stocked(c1, v1, c2, v2, limits("", d, 1)), using("c", "e"), nil, nil, full},
		"attached":                       {stocked(c1, v1, v2, limits("", d, 1), attached(d, ptr.To("w"))), using("c"), nil, nil, full},
		"attached for a pod":             {stocked(c1, v1, c2, v2, limits("", d, 2), attached(d, ptr.To("w"))), using("c"), nil, other(using("e")), nil},
		"attached, unknown":              {stocked(c1, v1, limits("", d, 1), attached(d, ptr.To("w"))), using("c"), nil, nil, nil},
		"attached, nameless":             {stocked(c1, v1, v2, limits("", d, 1), attached(d, nil)), using("c"), nil, nil, nil},
		"attached by nobody":             {stocked(c1, v1, v2, limits("", d, 1, "", 1), attached("", ptr.To("w"))), using("c"), nil, nil, nil},
		"yet to be made":                 {stocked(claimed("c", "late"), limits("", d, 0)), using("c"), nil, nil, full},
		"yet to be found":                {stocked(claimed("c", "late", has("v")), limits("", d, 0)), using("c"), nil, nil, full},
		"of no class":                    {stocked(claimed("c", ""), limits("", d, 0)), using("c"), nil, nil, nil},
		"of a missing class":             {stocked(claimed("c", "x"), limits("", d, 0)), using("c"), nil, nil, nil},
		"of no driver":                   {stocked(claimed("c", "now", has("v")), disk("v", "1Gi"), limits("", d, 0)), using("c"), nil, nil, nil},
		"a missing claim":                {stocked(), using("c"), nil, nil, never(`looking up PVC ns/c: persistentvolumeclaim "c" not found`)},
		"a claim with no name":           {stocked(), using(""), nil, nil, &scheduler.Refusal{Err: errors.New("PersistentVolumeClaim had no name")}},
		"another's is missing":           {stocked(c1, v1, limits("", d, 1)), using("c"), nil, other(using("e")), nil},
		"ephemeral":                      {stocked(claimed("p-e", "late", owned("p")), limits("", d, 0)), ephemeral(), nil, nil, full},
		"ephemeral, another's":           {stocked(claimed("p-e", "late", owned("x")), limits("", d, 0)), foreign, nil, nil, &scheduler.Refusal{Err: errors.New("PVC ns/p-e was not created for pod ns/p (pod is not owner)")}},
		"driver missing":                 {stocked(c1, v1, picky), using("c"), nil, nil, refused(d + " CSI driver is not installed on the node")},
		"driver not among":               {stocked(c1, v1, picky, limits("", "x", 1)), using("c"), nil, nil, refused(d + " CSI driver is not installed on the node")},
		"another's broken":               {stocked(c1, v1, limits("", d, 1, ebsDriver, 1)), using("c"), nil, other(inline(ebs("aws://z/bad"))), &scheduler.Refusal{Err: errors.New(broken)}},
		"another's broken, no limit":     {stocked(c1, v1, limits("", d, -1, ebsDriver, -1)), using("c"), nil, other(inline(ebs("aws://z/bad"))), nil},
		"driver there":                   {stocked(c1, v1, picky, limits("", d, 1)), using("c"), nil, nil, nil},
		"driver may miss":                {stocked(c1, v1, driver(nil)), using("c"), nil, nil, nil},
		"inline, replaced":               {stocked(limits("", ebsDriver, 0)), inline(ebs("vol-1")), nil, nil, full},
		"inline, not replaced":           {stocked(), inline(ebs("vol-1")), nil, nil, nil},
		"inline, twice":                  {stocked(limits("", ebsDriver, 1)), inline(ebs("vol-1")), nil, other(inline(ebs("vol-1"))), nil},
		"inline, broken":                 {stocked(limits("", ebsDriver, 1)), inline(ebs("aws://z/bad")), nil, nil, &scheduler.Refusal{Err: errors.New(broken)}},
		"a plugin's volume":              {stocked(claimed("c", "now", has("v")), old, limits("", ebsDriver, 0)), using("c"), nil, nil, full},
		"a plugin's class":               {stocked(oldClass, claimed("c", "old"), limits("", ebsDriver, 0)), using("c"), nil, nil, full},
		"a plugin's class, not replaced": {stocked(oldClass, claimed("c", "old"), strict), using("c"), nil, nil, nil},
		"inline, never replaced":         {stocked(limits("", "file.csi.azure.com", 0)), inline(share), nil, nil, nil},
	})
	gone := func(p *corev1.Pod, node, nominated string) scheduler.Event {
		p.Spec.NodeName, p.Status.NominatedNodeName = node, nominated
		return scheduler.Event{Kind: scheduler.AssignedPodDeleted, OldPod: p}
	}
	const added, updated, deleted = scheduler.ObjectAdded, scheduler.ObjectUpdated, scheduler.ObjectDeleted
	events := map[string]struct {
		event scheduler.Event
		want  bool
	}{
		"a pod with a claim":  {gone(using("x"), "n", ""), true},
		"a nominated one":     {gone(using("x"), "", "n"), true},
		"one without a node":  {gone(using("x"), "", ""), false},
		"a pod with a disk":   {gone(inline(ebs("a")), "n", ""), true},
		"an ephemeral volume": {gone(ephemeral(), "n", ""), true},
		"a pod without":       {gone(using(), "n", ""), false},
		"a CSI node":          {happened(added, nil, limits("")), true},
		"a greater limit":     {happened(updated, limits("", d, 1), limits("", d, 2)), true},
		"a first limit":       {happened(updated, limits("", d, -1), limits("", d, 2)), true},
		"a smaller limit":     {happened(updated, limits("", d, 2), limits("", d, 1)), false},
		"its claim":           {happened(added, nil, claimed("c", "now")), true},
		"another claim":       {happened(added, nil, claimed("x", "now")), false},
		"its claim, updated":  {happened(updated, nil, claimed("c", "now")), false},
		"an attachment, gone": {happened(deleted, attached(d, nil), nil), true},
		"an attachment":       {happened(added, nil, attached(d, nil)), false},
		"a claim, gone":       {happened(deleted, claimed("c", "now"), nil), false},
	}
	helps(t, plugins.NodeVolumeLimits{}, using("c"), events)
	helps(t, plugins.NodeVolumeLimits{}, inline(ebs("a")), map[string]struct {
		event scheduler.Event
		want  bool
	}{
		"its driver's":     {happened(deleted, attached(ebsDriver, nil), nil), true},
		"another driver's": {happened(deleted, attached(d, nil), nil), false},
	})
}

// The other three about volumes refuse nothing without Volumes, but disks in use.
func TestOthersWithoutVolumes(t *testing.T) {
	small := scheduler.NewNodeInfo(labeled(corev1.LabelTopologyZone, "z"), using("c"))
	check(t, plugins.VolumeZone{}, map[string]expect{"": {using("c"), small, nil}})
	check(t, plugins.NodeVolumeLimits{}, map[string]expect{"": {using("c"), small, nil}})
	check(t, plugins.VolumeRestrictions{}, map[string]expect{"": {using("c"), small, nil}})
}

// Pods without volumes of their kind are skipped, so that no node is looked at.
func TestVolumesSkipPods(t *testing.T) {
	s := stocked(claimed("c", "now", has("pv")), disk("pv", "1Gi"))
	of := func(p scheduler.Plugin) scheduler.Preparer {
		return plugins.WithVolumes([]scheduler.Enabled{{Plugin: p}}, s.Volumes)[0].Plugin.(scheduler.Preparer)
	}
	limits, restrictions, zone, binding := of(plugins.NodeVolumeLimits{}), of(plugins.VolumeRestrictions{}), of(plugins.VolumeZone{}), of(plugins.VolumeBinding{})
	empty := inline(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
	for name, tt := range map[string]struct {
		by   scheduler.Preparer
		pod  *corev1.Pod
		skip bool
	}{
		"limits, no volumes":       {limits, using(), true},
		"limits, another kind":     {limits, empty, true},
		"limits, a claim":          {limits, using("c"), false},
		"limits, a disk":           {limits, inline(ebs("a")), false},
		"limits, ephemeral":        {limits, ephemeral(), false},
		"restrictions, no volumes": {restrictions, using(), true},
		"restrictions, a claim":    {restrictions, using("c"), true},
		"restrictions, a disk":     {restrictions, inline(ebs("a")), false},
		"zone, no volumes":         {zone, using(), true},
		"zone, another kind":       {zone, empty, true},
		"binding, no volumes":      {binding, using(), true},
		"binding, another kind":    {binding, empty, true},
		"binding, a claim":         {binding, using("c"), false},
	} {
		prepared, err := tt.by.Prepare(tt.pod, scheduler.NewSnapshot([]*corev1.Node{labeled()}, nil))
		if err != nil || prepared.Skip != tt.skip {
			t.Errorf("%s: skips %t, %v", name, prepared.Skip, err)
		}
	}
}

// A plugin alone decides about one node.
func TestVolumeZoneOfOneNode(t *testing.T) {
	labelledPV := disk("pv", "1Gi", func(pv *corev1.PersistentVolume) { pv.Labels = map[string]string{corev1.LabelTopologyZone: "z"} })
	z := plugins.VolumeZone{Volumes: stocked(claimed("c", "now", has("pv")), labelledPV).Volumes}
	check(t, z, map[string]expect{
		"in its zone":     {using("c"), scheduler.NewNodeInfo(labeled(corev1.LabelTopologyZone, "z")), nil},
		"in another":      {using("c"), scheduler.NewNodeInfo(labeled(corev1.LabelTopologyZone, "y")), never("node(s) had no available volume zone")},
		"a missing claim": {using("d"), scheduler.NewNodeInfo(labeled()), never(`persistentvolumeclaim "d" not found`)},
		"no claim":        {using(), scheduler.NewNodeInfo(labeled()), nil},
	})
}
