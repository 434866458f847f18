package plugins_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/plugins"
)

const (
	nodeConflict = "node(s) didn't match PersistentVolume's node affinity"
	bindConflict = "node(s) didn't find available persistent volumes to bind"
	noSpace      = "node(s) did not have enough free storage"
	noVolume     = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
)

// What is said of claims that keep a pod from every node.
func TestVolumeBindingOfPods(t *testing.T) {
	deleted := func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = &metav1.Time{} }
	lost := func(c *corev1.PersistentVolumeClaim) { c.Status.Phase, c.Spec.VolumeName = corev1.ClaimLost, "pv" }
	reserved := func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "pv" }
	unset := class("unset", "x", "")
	unset.VolumeBindingMode = nil
	decides(t, plugins.VolumeBinding{}, map[string]placing{
		"no volumes":       {stocked(), using(), nil, nil, nil},
		"none of claims":   {stocked(), inline(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}), nil, nil, nil},
		"missing":          {stocked(), using("c"), nil, nil, never(`persistentvolumeclaim "c" not found`)},
		"lost":             {stocked(claimed("c", "now", lost)), using("c"), nil, nil, never(`persistentvolumeclaim "c" bound to non-existent persistentvolume "pv"`)},
		"being deleted":    {stocked(claimed("c", "now", has("pv"), deleted)), using("c"), nil, nil, never(`persistentvolumeclaim "c" is being deleted`)},
		"of another place": {stocked(changed(claimed("c", "now", has("pv")), func(c *corev1.PersistentVolumeClaim) { c.Namespace = "other" })), using("c"), nil, nil, never(`persistentvolumeclaim "c" not found`)},
		"not bound at once": {stocked(claimed("c", "now")), using("c"), nil, nil,
			never("pod has unbound immediate PersistentVolumeClaims")},
		"without a class":    {stocked(claimed("c", "")), using("c"), nil, nil, never("pod has unbound immediate PersistentVolumeClaims")},
		"of a missing class": {stocked(claimed("c", "none")), using("c"), nil, nil, never("pod has unbound immediate PersistentVolumeClaims")},
		"reserved":           {stocked(claimed("c", "late", reserved)), using("c"), nil, nil, never("pod has unbound immediate PersistentVolumeClaims")},
		"of a class without a mode": {stocked(claimed("c", "unset"), unset), using("c"), nil, nil,
			&scheduler.Refusal{Err: errors.New(`running PreFilter plugin "VolumeBinding": VolumeBindingMode not set for StorageClass "unset"`)}},
		"ephemeral": {stocked(claimed("p-e", "late", owned("p"))), ephemeral(), nil, nil, nil},
		"ephemeral, yet to be made": {stocked(), ephemeral(), nil, nil,
			never(`waiting for ephemeral volume controller to create the persistentvolumeclaim "p-e"`)},
		"ephemeral, of another pod": {stocked(claimed("p-e", "late", owned("q"))), ephemeral(), nil, nil,
			never("PVC ns/p-e was not created for pod ns/p (pod is not owner)")},
	})
}

func TestVolumeBindingOfNodes(t *testing.T) {
	selected := func(node string) func(*corev1.PersistentVolumeClaim) {
		return func(c *corev1.PersistentVolumeClaim) {
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, "volume.kubernetes.io/selected-node", node)
		}
	}
	here, away := at(corev1.LabelHostname, "n"), at(corev1.LabelHostname, "m")
	near := class("near", "disk.example.com", storagev1.VolumeBindingWaitForFirstConsumer)
	near.AllowedTopologies = []corev1.TopologySelectorTerm{{}, {MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: "rack", Values: []string{"a", "b"}}}}}
	odd := near.DeepCopy()
	odd.AllowedTopologies[1].MatchLabelExpressions[0].Key = "a b"
	broken := func(c *corev1.PersistentVolumeClaim) {
		c.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "k", Operator: "Near"}}}
	}
	moved := changed(disk("pv", "1Gi", at(corev1.LabelTopologyZone, "z")), func(pv *corev1.PersistentVolume) {
		pv.Spec.GCEPersistentDisk = &corev1.GCEPersistentDiskVolumeSource{PDName: "d"}
	})
	migrated := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: map[string]string{corev1.MigratedPluginsAnnotationKey: "kubernetes.io/aws-ebs,kubernetes.io/gce-pd"}}}
	decides(t, plugins.VolumeBinding{}, map[string]placing{
		"bound, here":                 {stocked(claimed("c", "now", has("pv")), disk("pv", "1Gi", here)), using("c"), nil, nil, nil},
		"bound, elsewhere":            {stocked(claimed("c", "now", has("pv")), disk("pv", "1Gi", away)), using("c"), nil, nil, never(nodeConflict)},
		"bound, anywhere":             {stocked(claimed("c", "now", has("pv")), disk("pv", "1Gi")), using("c"), nil, nil, nil},
		"bound to nothing":            {stocked(claimed("c", "now", has("pv"))), using("c"), nil, nil, never(noVolume)},
		"one here and one not":        {stocked(claimed("c", "now", has("pv")), disk("pv", "1Gi", here), claimed("d", "now", has("pw")), disk("pw", "1Gi", away)), using("c", "d"), nil, nil, never(nodeConflict)},
		"a plugin's":                  {stocked(claimed("c", "now", has("pv")), moved), using("c"), labeled(corev1.LabelTopologyZone, "z"), nil, nil},
		"a plugin's, moved":           {stocked(claimed("c", "now", has("pv")), moved, migrated), using("c"), labeled(corev1.LabelTopologyZone, "z"), nil, never(nodeConflict)},
		"a plugin's, where it is now": {stocked(claimed("c", "now", has("pv")), moved, migrated), using("c"), labeled("topology.gke.io/zone", "z"), nil, nil},
		"a volume to bind":            {stocked(claimed("c", "local"), disk("pv", "1Gi", here)), using("c"), nil, nil, nil},
		"a volume elsewhere":          {stocked(claimed("c", "local"), disk("pv", "1Gi", away)), using("c"), nil, nil, never(bindConflict)},
		"one volume for two":          {stocked(claimed("c", "local"), claimed("d", "local"), disk("pv", "1Gi", here)), using("c", "d"), nil, nil, never(bindConflict)},
		"both conflicts": {stocked(claimed("c", "now", has("pv")), disk("pv", "1Gi", away), claimed("d", "local")), using("c", "d"), nil, nil,
			never(nodeConflict, bindConflict)},
		"made anywhere":               {stocked(claimed("c", "late")), using("c"), nil, nil, nil},
		"made for this node":          {stocked(claimed("c", "late", selected("n"))), using("c"), nil, nil, nil},
		"made for another node":       {stocked(claimed("c", "late", selected("m"))), using("c"), nil, nil, never(bindConflict)},
		"made, of the topology":       {stocked(near, claimed("c", "near")), using("c"), labeled("rack", "b"), nil, nil},
		"made, of no topology":        {stocked(odd, claimed("c", "near")), using("c"), labeled("rack", "b"), nil, never(bindConflict)},
		"made, of another topology":   {stocked(near, claimed("c", "near")), using("c"), labeled("rack", "c"), nil, never(bindConflict)},
		"a selector that is not one":  {stocked(claimed("c", "local", broken)), using("c"), nil, nil, &scheduler.Refusal{Err: errors.New(`error creating internal label selector for claim: ns/c: "Near" is not a valid label selector operator`)}},
		"a class that is gone, later": {stocked(claimed("c", "local"), disk("pv", "1Gi", here), disk("pw", "1Gi", here)), using("c"), nil, nil, nil},
	})
}

// Which volumes suit a claim.
func TestVolumeBindingMatches(t *testing.T) {
	type change = func(*corev1.PersistentVolume)
	type claim = func(*corev1.PersistentVolumeClaim)
	ref := func(name string, uid string) change {
		return func(pv *corev1.PersistentVolume) {
			pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "ns", Name: name, UID: types.UID(uid)}
		}
	}
	released := func(pv *corev1.PersistentVolume) { pv.Status.Phase = corev1.VolumeReleased }
	for name, tt := range map[string]struct {
		volume change
		claim  claim
		want   bool
	}{
		"as it is":             {nil, nil, true},
		"larger":               {func(pv *corev1.PersistentVolume) { pv.Spec.Capacity = list("storage", "2Gi") }, nil, true},
		"smaller":              {func(pv *corev1.PersistentVolume) { pv.Spec.Capacity = list("storage", "1023Mi") }, nil, false},
		"released":             {released, nil, false},
		"being deleted":        {func(pv *corev1.PersistentVolume) { pv.DeletionTimestamp = &metav1.Time{} }, nil, false},
		"of another class":     {func(pv *corev1.PersistentVolume) { pv.Spec.StorageClassName = "late" }, nil, false},
		"a device":             {func(pv *corev1.PersistentVolume) { pv.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock) }, nil, false},
		"a file system":        {func(pv *corev1.PersistentVolume) { pv.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeFilesystem) }, nil, true},
		"of better attributes": {func(pv *corev1.PersistentVolume) { pv.Spec.VolumeAttributesClassName = ptr.To("gold") }, nil, false},
		"with labels": {func(pv *corev1.PersistentVolume) { pv.Labels = map[string]string{"k": "v"} },
			func(c *corev1.PersistentVolumeClaim) {
				c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"k": "v"}}
			}, true},
		"without labels": {nil, func(c *corev1.PersistentVolumeClaim) {
			c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"k": "v"}}
		}, false},
		"of more modes": {func(pv *corev1.PersistentVolume) {
			pv.Spec.AccessModes = append(pv.Spec.AccessModes, corev1.ReadOnlyMany)
		}, nil, true},
		"of fewer modes": {nil, func(c *corev1.PersistentVolumeClaim) {
			c.Spec.AccessModes = append(c.Spec.AccessModes, corev1.ReadOnlyMany)
		}, false},
		"reserved for it":                  {func(pv *corev1.PersistentVolume) { ref("c", "c")(pv); released(pv); pv.Spec.AccessModes = nil }, nil, true},
		"reserved by name":                 {ref("c", ""), nil, true},
		"reserved for another of its name": {ref("c", "other"), nil, false},
		"reserved for another":             {ref("d", ""), nil, false},
		"reserved, too small":              {func(pv *corev1.PersistentVolume) { ref("c", "c")(pv); pv.Spec.Capacity = list("storage", "1Mi") }, nil, false},
		"of a class by annotation": {func(pv *corev1.PersistentVolume) {
			pv.Spec.StorageClassName = "late"
			pv.Annotations = map[string]string{corev1.BetaStorageClassAnnotation: "local"}
		}, nil, true},
		"for a class by annotation": {nil, func(c *corev1.PersistentVolumeClaim) {
			c.Spec.StorageClassName = ptr.To("late")
			c.Annotations = map[string]string{corev1.BetaStorageClassAnnotation: "local"}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			pv, c := disk("pv", "1Gi"), claimed("c", "local")
			if tt.volume != nil {
				tt.volume(pv)
			}
			if tt.claim != nil {
				tt.claim(c)
			}
			refusal := plugins.VolumeBinding{Volumes: stocked(pv, c).Volumes}.Check(using("c"), scheduler.NewNodeInfo(labeled()))
			if (refusal == nil) != tt.want {
				t.Errorf("refusal %v", refusal)
			}
		})
	}
}

// A claim for which a volume is reserved gets this one, or none.
func TestVolumeBindingReserved(t *testing.T) {
	reserved := disk("pw", "9Gi", at(corev1.LabelHostname, "m"))
	reserved.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "ns", Name: "c"}
	s := stocked(claimed("c", "local"), disk("pv", "1Gi"), reserved)
	b := plugins.VolumeBinding{Volumes: s.Volumes}
	if diff := cmp.Diff(never(bindConflict), b.Check(using("c"), scheduler.NewNodeInfo(labeled()))); diff != "" {
		t.Error(diff)
	}
	if refusal := b.Check(using("c"), scheduler.NewNodeInfo(labeled(corev1.LabelHostname, "m"))); refusal != nil {
		t.Error(refusal)
	}
}

// capacity returns how much room there is in racks for the class "late".
func capacity(rack, size, most string) *storagev1.CSIStorageCapacity {
	c := &storagev1.CSIStorageCapacity{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: rack}, StorageClassName: "late",
		NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{"rack": rack}}, Capacity: ptr.To(resource.MustParse(size)),
	}
	if most != "" {
		c.MaximumVolumeSize = ptr.To(resource.MustParse(most))
	}
	return c
}

func driver(capacities *bool) *storagev1.CSIDriver {
	return &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "disk.example.com"}, Spec: storagev1.CSIDriverSpec{StorageCapacity: capacities}}
}

func TestVolumeBindingCapacity(t *testing.T) {
	in, limited := labeled("rack", "a"), driver(ptr.To(true))
	unsized := func(c *corev1.PersistentVolumeClaim) { c.Spec.Resources.Requests = nil }
	other, nowhere := capacity("a", "9Gi", ""), capacity("a", "9Gi", "")
	other.StorageClassName, nowhere.NodeTopology = "other", nil
	decides(t, plugins.VolumeBinding{}, map[string]placing{
		"enough":                 {stocked(claimed("c", "late"), limited, capacity("a", "1Gi", "")), using("c"), in, nil, nil},
		"too little":             {stocked(claimed("c", "late"), limited, capacity("a", "1023Mi", "")), using("c"), in, nil, never(noSpace)},
		"too small":              {stocked(claimed("c", "late"), limited, capacity("a", "9Gi", "1023Mi")), using("c"), in, nil, never(noSpace)},
		"elsewhere":              {stocked(claimed("c", "late"), limited, capacity("b", "9Gi", "")), using("c"), in, nil, never(noSpace)},
		"of another class":       {stocked(claimed("c", "late"), limited, other), using("c"), in, nil, never(noSpace)},
		"nowhere":                {stocked(claimed("c", "late"), limited, nowhere), using("c"), in, nil, never(noSpace)},
		"none published":         {stocked(claimed("c", "late"), limited), using("c"), in, nil, never(noSpace)},
		"of a driver without":    {stocked(claimed("c", "late"), driver(ptr.To(false))), using("c"), in, nil, nil},
		"of a driver that may":   {stocked(claimed("c", "late"), driver(nil)), using("c"), in, nil, nil},
		"of an unknown driver":   {stocked(claimed("c", "late")), using("c"), in, nil, nil},
		"a claim without a size": {stocked(claimed("c", "late", unsized), limited), using("c"), in, nil, nil},
	})
}

// A pod that found no room for a volume hears of more room, and of drivers that publish theirs no more.
func TestVolumeBindingHintsOfCapacity(t *testing.T) {
	has, hasNot := driver(ptr.To(true)), driver(ptr.To(false))
	other := driver(ptr.To(true))
	other.Name = "other.example.com"
	scratch := inline(corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: has.Name}})
	changed := func(old, obj informer.Object) scheduler.Event {
		return scheduler.Event{Kind: scheduler.ObjectUpdated, OldObject: old, Object: obj}
	}
	unlimited := capacity("a", "1Gi", "")
	unlimited.Capacity = nil
	hints(t, plugins.VolumeBinding{}, map[string]hint{
		"a driver has room without end": {scratch, changed(has, hasNot), true},
		"a driver goes on publishing":   {scratch, changed(has, has), false},
		"a driver never published":      {scratch, changed(hasNot, hasNot), false},
		"a driver begins to publish":    {scratch, changed(hasNot, has), false},
		"another driver":                {scratch, changed(other, other), false},
		"no volume of a driver":         {using("c"), changed(has, hasNot), false},
		"a driver came":                 {scratch, scheduler.Event{Kind: scheduler.ObjectAdded, Object: has}, false},
		"room appears":                  {using("c"), scheduler.Event{Kind: scheduler.ObjectAdded, Object: capacity("a", "1Gi", "")}, true},
		"room grows":                    {using("c"), changed(capacity("a", "1Gi", ""), capacity("a", "2Gi", "")), true},
		"room stays":                    {using("c"), changed(capacity("a", "1Gi", ""), capacity("a", "1Gi", "")), false},
		"room shrinks":                  {using("c"), changed(capacity("a", "2Gi", ""), capacity("a", "1Gi", "")), false},
		"larger volumes":                {using("c"), changed(capacity("a", "9Gi", "1Gi"), capacity("a", "9Gi", "2Gi")), true},
		"room becomes known":            {using("c"), changed(unlimited, capacity("a", "1Gi", "")), true},
		"room becomes unknown":          {using("c"), changed(capacity("a", "1Gi", ""), unlimited), false},
	})
}

func TestVolumeBindingScores(t *testing.T) {
	score := func(s *stock, p *corev1.Pod, n *corev1.Node) int64 {
		return plugins.VolumeBinding{Volumes: s.Volumes}.Score(p, scheduler.NewNodeInfo(n))
	}
	for name, tt := range map[string]struct {
		stock *stock
		pod   *corev1.Pod
		want  int64
	}{
		"no claims":             {stocked(), using(), 0},
		"bound":                 {stocked(claimed("c", "now", has("pv")), disk("pv", "9Gi")), using("c"), 0},
		"a quarter of a volume": {stocked(claimed("c", "local"), disk("pv", "4Gi")), using("c"), 75},
		"all of the smallest":   {stocked(claimed("c", "local"), disk("pv", "4Gi"), disk("pw", "1Gi"), disk("px", "2Gi")), using("c"), 0},
		"two of a class":        {stocked(claimed("c", "local"), claimed("d", "local"), disk("pv", "4Gi"), disk("pw", "1Gi")), using("c", "d"), 60},
		"made with no limits":   {stocked(claimed("c", "late")), using("c"), 0},
		"a tenth of the room":   {stocked(claimed("c", "late"), driver(ptr.To(true)), capacity("a", "10Gi", "")), using("c"), 90},
		"two in the room":       {stocked(claimed("c", "late"), claimed("d", "late"), driver(ptr.To(true)), capacity("a", "10Gi", "")), using("c", "d"), 80},
		"more than the room":    {stocked(claimed("c", "late"), driver(ptr.To(true)), capacity("a", "1Mi", "9Gi")), using("c"), 0},
		"volumes before room": {stocked(claimed("c", "local"), disk("pv", "4Gi"), claimed("d", "late"), driver(ptr.To(true)), capacity("a", "10Gi", "")),
			using("c", "d"), 75},
		"nowhere":                   {stocked(claimed("c", "local")), using("c"), 0},
		"of a class without a mode": {stocked(claimed("c", "unset"), changed(class("unset", "x", ""), func(c *storagev1.StorageClass) { c.VolumeBindingMode = nil })), using("c"), 0},
		"not here": {stocked(claimed("c", "local"), disk("pv", "4Gi"), claimed("d", "now", has("pw")), disk("pw", "1Gi", at("rack", "b"))),
			using("c", "d"), 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := score(tt.stock, tt.pod, labeled("rack", "a")); got != tt.want {
				t.Errorf("score %d, want %d", got, tt.want)
			}
		})
	}
}

// Without Volumes, pods with claims wait.
func TestVolumeBindingWithoutVolumes(t *testing.T) {
	p := ephemeral()
	p.Spec.Volumes = append(p.Spec.Volumes, using("x", "y").Spec.Volumes...)
	for name, tt := range map[string]expect{
		"claims":       {p, nil, never(`pod requires persistentvolumeclaim "x", which this scheduler does not support`)},
		"an ephemeral": {ephemeral(), nil, never(`pod requires persistentvolumeclaim "p-e", which this scheduler does not support`)},
		"none":         {using(), nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			tt.node = scheduler.NewNodeInfo(labeled())
			if got := (plugins.VolumeBinding{}).Score(tt.pod, tt.node); got != 0 {
				t.Errorf("scores %d", got)
			}
			check(t, plugins.VolumeBinding{}, map[string]expect{"": tt})
			if d := (&scheduler.Profile{Plugins: plugins.Default()}).Schedule(tt.pod, scheduler.NewSnapshot([]*corev1.Node{labeled()}, nil)); (d.Node == "") != (tt.want != nil) {
				t.Errorf("decided otherwise:\n%v", d)
			}
		})
	}
}

// Volumes are reserved for pods with claims that are not bound.
func TestVolumeBindingReserves(t *testing.T) {
	s := stocked(claimed("c", "local"), disk("pv", "4Gi"), labeled())
	for name, tt := range map[string]struct {
		plugin plugins.VolumeBinding
		pod    *corev1.Pod
		skips  bool
	}{
		"without volumes":      {plugins.VolumeBinding{}, using("c"), true},
		"a pod without claims": {plugins.VolumeBinding{Volumes: s.Volumes}, using(), true},
		"a pod with a claim":   {plugins.VolumeBinding{Volumes: s.Volumes}, using("c"), false},
	} {
		if got := tt.plugin.SkipReserve(tt.pod); got != tt.skips {
			t.Errorf("%s: skipped %t", name, got)
		}
		undo, err := tt.plugin.Reserve(t.Context(), tt.pod, "n")
		if err != nil || (undo == nil) != tt.skips || tt.plugin.SkipPreBind(tt.pod, "n") != tt.skips {
			t.Errorf("%s: reserved %t, %v", name, undo != nil, err)
		}
		if undo != nil {
			undo()
		}
	}
}

// happened is an event about another object.
func happened(kind scheduler.EventKind, old, obj informer.Object) scheduler.Event {
	return scheduler.Event{Kind: kind, OldObject: old, Object: obj}
}

// helps tests which events a plugin asks for and finds helpful.
func helps(t *testing.T, h scheduler.Hinter, pod *corev1.Pod, tests map[string]struct {
	event scheduler.Event
	want  bool
}) {
	t.Helper()
	for name, tt := range tests {
		if got := h.Events()&tt.event.Kind != 0 && h.MayHelp(pod, tt.event); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestVolumeBindingEvents(t *testing.T) {
	near := class("late", "disk.example.com", storagev1.VolumeBindingWaitForFirstConsumer)
	near.AllowedTopologies = []corev1.TopologySelectorTerm{{}}
	late := class("late", "disk.example.com", storagev1.VolumeBindingWaitForFirstConsumer)
	csi := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	migrated := csi.DeepCopy()
	migrated.Annotations = map[string]string{corev1.MigratedPluginsAnnotationKey: "kubernetes.io/aws-ebs"}
	none := capacity("a", "1Gi", "")
	none.Capacity = nil
	elsewhere := claimed("c", "late")
	elsewhere.Namespace = "other"
	p := using("c")
	p.Spec.Volumes = append(p.Spec.Volumes, ephemeral().Spec.Volumes[0], corev1.Volume{Name: "i", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "disk.example.com"}}})
	const added, updated, deleted = scheduler.ObjectAdded, scheduler.ObjectUpdated, scheduler.ObjectDeleted
	helps(t, plugins.VolumeBinding{}, p, map[string]struct {
		event scheduler.Event
		want  bool
	}{
		"its claim":              {happened(added, nil, claimed("c", "late")), true},
		"its claim, updated":     {happened(updated, claimed("c", "late"), claimed("c", "late")), true},
		"its own claim":          {happened(added, nil, claimed("p-e", "late")), true},
		"another claim":          {happened(added, nil, claimed("d", "late")), false},
		"a claim elsewhere":      {happened(added, nil, elsewhere), false},
		"its claim, deleted":     {happened(deleted, claimed("c", "late"), nil), false},
		"a volume":               {happened(added, nil, disk("pv", "1Gi")), true},
		"a volume, updated":      {happened(updated, disk("pv", "1Gi"), disk("pv", "1Gi")), true},
		"a class":                {happened(added, nil, late), true},
		"a class, widened":       {happened(updated, near, late), true},
		"a class, the same":      {happened(updated, late, late), false},
		"a CSI node":             {happened(added, nil, csi), true},
		"a CSI node, migrated":   {happened(updated, csi, migrated), true},
		"a CSI node, the same":   {happened(updated, csi, csi), false},
		"a driver":               {happened(added, nil, driver(nil)), false},
		"its driver, unlimited":  {happened(updated, driver(ptr.To(true)), driver(nil)), true},
		"its driver, limited":    {happened(updated, driver(nil), driver(ptr.To(true))), false},
		"its driver, the same":   {happened(updated, driver(nil), driver(nil)), false},
		"room":                   {happened(added, nil, capacity("a", "1Gi", "")), true},
		"more room":              {happened(updated, capacity("a", "1Gi", ""), capacity("a", "2Gi", "")), true},
		"the first room":         {happened(updated, none, capacity("a", "2Gi", "")), true},
		"less room":              {happened(updated, capacity("a", "2Gi", ""), capacity("a", "1Gi", "")), false},
		"no room":                {happened(updated, capacity("a", "2Gi", ""), none), false},
		"more room, same volume": {happened(updated, capacity("a", "1Gi", "1Gi"), capacity("a", "2Gi", "1Gi")), false},
		"an attachment":          {happened(added, nil, &storagev1.VolumeAttachment{}), false},
		"a node":                 {scheduler.Event{Kind: scheduler.NodeAdded, Node: labeled()}, true},
		"a node's labels":        {scheduler.Event{Kind: scheduler.NodeUpdated, Change: scheduler.NodeLabelsChanged}, true},
		"a node's taints":        {scheduler.Event{Kind: scheduler.NodeUpdated, Change: scheduler.NodeTaintsChanged}, false},
		"a pod":                  {scheduler.Event{Kind: scheduler.AssignedPodDeleted}, false},
	})
}
