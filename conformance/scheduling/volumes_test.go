package scheduling_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// TestVolumes compares the plugins about volumes.
func TestVolumes(t *testing.T) {
	seen := tally{}
	each(t, func(t *testing.T, seed uint64) {
		g := &generator{Rand: rand.New(rand.NewPCG(seed, 1))}
		w := newWorld(t, g.volumes(), "VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone")
		for _, pod := range w.pending {
			feasible, state := w.decide(pod)
			seen.note(w.profile.Schedule(pod, w.state.Snapshot()))
			if len(feasible) > 0 {
				w.place(pod, pick(g, feasible...), state, g.chance(0.8))
			}
		}
	})
	seen.log(t)
}

// generator makes random objects.
type generator struct {
	*rand.Rand
	sizes int
}

func (g *generator) chance(p float64) bool { return g.Float64() < p }

func pick[T any](g *generator, of ...T) T { return of[g.IntN(len(of))] }

// size returns another size each time, since upstream chooses between equal volumes by chance.
func (g *generator) size() resource.Quantity {
	g.sizes++
	return *resource.NewQuantity(int64(1+g.IntN(20))<<30+int64(g.sizes), resource.BinarySI)
}

func (g *generator) name(prefix string, n int) string { return fmt.Sprintf("%s-%d", prefix, g.IntN(n)) }

func drivers() []string {
	return []string{"disk.example.com", "fast.example.com", "ebs.csi.aws.com", "pd.csi.storage.gke.io"}
}

func provisioners() []string {
	return append(drivers(), "kubernetes.io/no-provisioner", "kubernetes.io/aws-ebs", "kubernetes.io/gce-pd", "kubernetes.io/azure-file")
}

func (g *generator) volumes() objects {
	var o objects
	for i := range 1 + g.IntN(6) {
		o.nodes = append(o.nodes, g.node(i))
		if g.chance(0.8) {
			o.csiNodes = append(o.csiNodes, g.csiNode(i))
		}
	}
	for i := range 5 {
		if g.chance(0.95) {
			o.classes = append(o.classes, g.class(i))
		}
	}
	for _, name := range drivers() {
		if g.chance(0.6) {
			o.drivers = append(o.drivers, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSIDriverSpec{
				StorageCapacity:               pick(g, nil, ptr.To(true), ptr.To(true), ptr.To(false)),
				PreventPodSchedulingIfMissing: pick(g, nil, nil, ptr.To(true), ptr.To(false)),
			}})
		}
	}
	g.capacities(&o)
	for i := range g.IntN(8) {
		o.claims = append(o.claims, g.claim(i))
	}
	for i := range g.IntN(14) {
		o.volumes = append(o.volumes, g.volume(i))
	}
	g.preBind(&o)
	for i := range g.IntN(3) {
		o.attachments = append(o.attachments, &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("a-%d", i)}, Spec: storagev1.VolumeAttachmentSpec{
			Attacher: pick(g, append(drivers(), "")...), NodeName: g.name("node", 6),
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: pick(g, nil, ptr.To(g.name("pv", 14)), ptr.To(g.name("pv", 14)))},
		}})
	}
	for i := range g.IntN(5) {
		p := g.pod(fmt.Sprintf("bound-%d", i))
		p.Spec.NodeName = pick(g, o.nodes...).Name
		o.bound = append(o.bound, p)
	}
	for i := range 1 + g.IntN(4) {
		o.pending = append(o.pending, g.pod(fmt.Sprintf("pod-%d", i)))
	}
	g.own(&o)
	return o
}

func (g *generator) node(i int) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", i), Labels: map[string]string{}}}
	for key, values := range map[string][]string{
		corev1.LabelHostname:                {n.Name, n.Name, n.Name, "other"},
		corev1.LabelTopologyZone:            {"z1", "z2"},
		corev1.LabelTopologyRegion:          {"r1", "r2"},
		corev1.LabelFailureDomainBetaZone:   {"z1", "z2"},
		corev1.LabelFailureDomainBetaRegion: {"r1"},
		"topology.ebs.csi.aws.com/zone":     {"z1", "z2"},
		"topology.gke.io/zone":              {"z1"},
		"rack":                              {"a", "b", "c"},
	} {
		value := pick(g, values...)
		if g.chance(0.6) {
			n.Labels[key] = value
		}
	}
	return n
}

func (g *generator) csiNode(i int) *storagev1.CSINode {
	n := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", i)}}
	if g.chance(0.5) {
		n.Annotations = map[string]string{corev1.MigratedPluginsAnnotationKey: pick(g, "", "kubernetes.io/aws-ebs", "kubernetes.io/aws-ebs,kubernetes.io/gce-pd")}
	}
	for _, name := range drivers() {
		if g.chance(0.7) {
			d := storagev1.CSINodeDriver{Name: name, NodeID: n.Name}
			if g.chance(0.6) {
				d.Allocatable = &storagev1.VolumeNodeResources{Count: pick(g, nil, ptr.To[int32](1), ptr.To[int32](2), ptr.To[int32](3))}
			}
			n.Spec.Drivers = append(n.Spec.Drivers, d)
		}
	}
	return n
}

func (g *generator) class(i int) *storagev1.StorageClass {
	c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("class-%d", i)}, Provisioner: pick(g, provisioners()...)}
	c.VolumeBindingMode = pick(g, ptr.To(storagev1.VolumeBindingWaitForFirstConsumer), ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
		ptr.To(storagev1.VolumeBindingWaitForFirstConsumer), ptr.To(storagev1.VolumeBindingImmediate))
	if g.chance(0.03) {
		c.VolumeBindingMode = nil
	}
	for range g.IntN(3) {
		if g.chance(0.4) {
			var term corev1.TopologySelectorTerm
			for range g.IntN(3) {
				term.MatchLabelExpressions = append(term.MatchLabelExpressions, corev1.TopologySelectorLabelRequirement{
					Key: pick(g, "rack", corev1.LabelTopologyZone, "rack", "not a key!"), Values: pick(g, []string{"a", "z1"}, []string{"b"}, []string{"z2", "c"}),
				})
			}
			c.AllowedTopologies = append(c.AllowedTopologies, term)
		}
	}
	return c
}

// capacities makes at most one that a node has access to, since upstream takes any of several.
func (g *generator) capacities(o *objects) {
	for _, class := range o.classes {
		for _, rack := range []string{"a", "b", "c"} {
			if g.chance(0.3) {
				continue
			}
			size := g.size()
			c := &storagev1.CSIStorageCapacity{
				ObjectMeta:       metav1.ObjectMeta{Namespace: "storage", Name: class.Name + "-" + rack},
				StorageClassName: class.Name, Capacity: &size,
				NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{"rack": rack}},
			}
			if g.chance(0.3) {
				c.MaximumVolumeSize = ptr.To(g.size())
			}
			switch g.IntN(20) {
			case 0:
				c.NodeTopology = nil
			case 1:
				c.NodeTopology.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "rack", Operator: "Near"}}
			}
			o.capacities = append(o.capacities, c)
		}
	}
}

func (g *generator) modes() []corev1.PersistentVolumeAccessMode {
	return pick(g, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadOnlyMany},
		[]corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadWriteOncePod, corev1.ReadWriteMany})
}

func (g *generator) mode() *corev1.PersistentVolumeMode {
	return pick(g, nil, nil, nil, ptr.To(corev1.PersistentVolumeFilesystem), ptr.To(corev1.PersistentVolumeBlock))
}

func (g *generator) claim(i int) *corev1.PersistentVolumeClaim {
	name := fmt.Sprintf("claim-%d", i)
	c := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), ResourceVersion: "1"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: g.modes(), VolumeMode: g.mode(),
			StorageClassName: pick(g, ptr.To(g.name("class", 5)), ptr.To(g.name("class", 5)), ptr.To(g.name("class", 5)), ptr.To(g.name("class", 5)), ptr.To(g.name("class", 5)), ptr.To(""), nil),
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
	}
	if g.chance(0.95) {
		c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(int64(1+g.IntN(8))<<30, resource.BinarySI)}
	}
	if g.chance(0.2) {
		c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": pick(g, "x", "y")}}
		if g.chance(0.1) {
			c.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "tier", Operator: "Near"}}
		}
	}
	if g.chance(0.1) {
		c.Spec.VolumeAttributesClassName = ptr.To(pick(g, "gold", ""))
	}
	c.Annotations = map[string]string{}
	if g.chance(0.05) && c.Spec.StorageClassName != nil {
		c.Annotations[corev1.BetaStorageClassAnnotation] = g.name("class", 5)
	}
	switch g.IntN(10) {
	case 0, 1, 2: // bound
		c.Spec.VolumeName = g.name("pv", 14)
		c.Annotations["pv.kubernetes.io/bind-completed"] = "yes"
		c.Status.Phase = pick(g, corev1.ClaimBound, corev1.ClaimBound, corev1.ClaimBound, corev1.ClaimBound, corev1.ClaimLost)
	case 3:
		c.Spec.VolumeName = g.name("pv", 14)
	case 5:
		c.Annotations["volume.kubernetes.io/selected-node"] = g.name("node", 6)
	}
	if g.chance(0.03) {
		c.DeletionTimestamp, c.Finalizers = &metav1.Time{}, []string{"f"}
	}
	return c
}

func (g *generator) volume(i int) *corev1.PersistentVolume {
	name := fmt.Sprintf("pv-%d", i)
	v := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), ResourceVersion: "1", Labels: map[string]string{}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{corev1.ResourceStorage: g.size()}, AccessModes: g.modes(), VolumeMode: g.mode(),
			StorageClassName: pick(g, g.name("class", 5), g.name("class", 5), g.name("class", 5), ""),
		},
		Status: corev1.PersistentVolumeStatus{Phase: pick(g, corev1.VolumeAvailable, corev1.VolumeAvailable, corev1.VolumeAvailable, corev1.VolumeAvailable, corev1.VolumeReleased)},
	}
	switch g.IntN(6) {
	case 0, 1:
		v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: pick(g, drivers()...), VolumeHandle: g.name("handle", 4)}
	case 2:
		v.Spec.AWSElasticBlockStore = &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: pick(g, g.name("vol", 4), "aws://z1/vol-1", "aws://z1/bad")}
	case 3:
		v.Spec.GCEPersistentDisk = &corev1.GCEPersistentDiskVolumeSource{PDName: g.name("disk", 4)}
	default:
		v.Spec.Local = &corev1.LocalVolumeSource{Path: "/disk"}
	}
	if g.chance(0.7) {
		v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{}}
		for range g.IntN(3) {
			v.Spec.NodeAffinity.Required.NodeSelectorTerms = append(v.Spec.NodeAffinity.Required.NodeSelectorTerms, g.term())
		}
	}
	for _, key := range []string{corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion} {
		if g.chance(0.1) {
			v.Labels[key] = strings.Replace(pick(g, "z1", "z2", "z1__z2", " z1 __z3", "z1__", "", "r1", "r1__r2"), "z", pick(g, "z", "z", "r"), -1)
		}
	}
	if g.chance(0.4) {
		v.Labels["tier"] = pick(g, "x", "y")
	}
	if g.chance(0.1) {
		v.Spec.VolumeAttributesClassName = ptr.To(pick(g, "gold", ""))
	}
	if g.chance(0.03) {
		v.DeletionTimestamp, v.Finalizers = &metav1.Time{}, []string{"f"}
	}
	if g.chance(0.05) {
		v.Annotations = map[string]string{corev1.BetaStorageClassAnnotation: g.name("class", 5)}
	}
	return v
}

func (g *generator) term() corev1.NodeSelectorTerm {
	var term corev1.NodeSelectorTerm
	for range 1 + g.IntN(2) {
		key := pick(g, corev1.LabelHostname, corev1.LabelHostname, corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaZone, "rack")
		values := []string{g.name("node", 6), g.name("node", 6), g.name("node", 6)}
		switch key {
		case corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaZone:
			values = []string{pick(g, "z1", "z2")}
		case "rack":
			values = []string{"a", pick(g, "b", "c")}
		}
		op := pick(g, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn, corev1.NodeSelectorOpExists)
		if op == corev1.NodeSelectorOpExists {
			values = nil
		}
		if g.chance(0.02) {
			op = "Near"
		}
		term.MatchExpressions = append(term.MatchExpressions, corev1.NodeSelectorRequirement{Key: key, Operator: op, Values: values})
	}
	if g.chance(0.05) {
		term.MatchFields = []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{g.name("node", 6)}}}
	}
	return term
}

// preBind reserves volumes for claims, at most one for each, since upstream takes any of several.
func (g *generator) preBind(o *objects) {
	for i, claim := range o.claims {
		if i >= len(o.volumes) || !g.chance(0.3) {
			continue
		}
		ref := &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: pick(g, claim.UID, claim.UID, "", "other")}
		if g.chance(0.1) {
			ref.Namespace = "other"
		}
		o.volumes[i].Spec.ClaimRef = ref
		if g.chance(0.7) {
			o.volumes[i].Spec.StorageClassName = ptr.Deref(claim.Spec.StorageClassName, "")
		}
	}
}

func (g *generator) pod(name string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
	for i := range g.IntN(4) {
		v := corev1.Volume{Name: fmt.Sprintf("v-%d", i)}
		switch g.IntN(16) {
		case 0:
			v.GCEPersistentDisk = &corev1.GCEPersistentDiskVolumeSource{PDName: g.name("disk", 3), ReadOnly: g.chance(0.5)}
		case 1:
			v.AWSElasticBlockStore = &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: g.name("vol", 3)}
		case 2:
			v.ISCSI = &corev1.ISCSIVolumeSource{IQN: g.name("iqn", 3), ReadOnly: g.chance(0.5)}
		case 3:
			v.RBD = &corev1.RBDVolumeSource{CephMonitors: []string{g.name("m", 3), g.name("m", 3)}, RBDPool: g.name("pool", 2), RBDImage: "i", ReadOnly: g.chance(0.5)}
		case 4:
			v.EmptyDir = &corev1.EmptyDirVolumeSource{}
		case 5:
			v.Ephemeral = &corev1.EphemeralVolumeSource{}
		default:
			v.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: g.name("claim", 8)}
		}
		p.Spec.Volumes = append(p.Spec.Volumes, v)
	}
	return p
}

// own makes the claims of ephemeral volumes, most of them.
func (g *generator) own(o *objects) {
	for _, pods := range [][]*corev1.Pod{o.bound, o.pending} {
		for _, p := range pods {
			for _, v := range p.Spec.Volumes {
				if v.Ephemeral == nil || g.chance(0.1) {
					continue
				}
				c := g.claim(100)
				c.Name = p.Name + "-" + v.Name
				c.UID = types.UID(c.Name)
				if g.chance(0.95) {
					c.OwnerReferences = []metav1.OwnerReference{{Kind: "Pod", Name: p.Name, UID: p.UID, Controller: ptr.To(true)}}
				}
				o.claims = append(o.claims, c)
			}
		}
	}
}
