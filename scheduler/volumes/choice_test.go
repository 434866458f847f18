package volumes_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/keelson-dev/keelson/scheduler/volumes"
)

// sized returns a local volume of node "n".
func sized(name, size string, changes ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	d := disk(name, "n")
	d.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	for _, change := range changes {
		change(d)
	}
	return d
}

// on returns a change after which a volume is reachable from nodes with a label.
func on(key string, values ...string) func(*corev1.PersistentVolume) {
	return func(d *corev1.PersistentVolume) {
		d.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}},
		}}}}
	}
}

func anywhere(d *corev1.PersistentVolume) { d.Spec.NodeAffinity = nil }

// forClaim returns a change that reserves a volume.
func forClaim(namespace, name, uid string) func(*corev1.PersistentVolume) {
	return func(d *corev1.PersistentVolume) {
		d.Spec.ClaimRef = &corev1.ObjectReference{Namespace: namespace, Name: name}
		d.Spec.ClaimRef.UID = claim(uid, "").UID
		if uid == "" {
			d.Spec.ClaimRef.UID = ""
		}
	}
}

// zoned gives the nodes a zone each.
func zoned(s *server) {
	for _, name := range []string{"n", "m"} {
		s.nodes.Put(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelHostname: name, corev1.LabelTopologyZone: "zone-" + name,
		}}})
	}
}

// chosen returns what is written for a pod on node "n", or why nothing is.
func chosen(t *testing.T, s *server, v *volumes.Volumes, p *corev1.Pod) string {
	t.Helper()
	if why := reasons(t, s, v, p, "n"); why != "" {
		return why
	}
	reserve(t, v, p, "n")
	bindLater(t.Context(), v, p, "n")
	return s.wrote()
}

// TestCandidates: the volume that a claim gets, if there are several.
func TestCandidates(t *testing.T) {
	type change = func(*corev1.PersistentVolume)
	const (
		a, b = "a for ns/x uid-x yes", "b for ns/x uid-x yes"
		own  = "b for ns/x uid-x " // reserved by a user
		none = volumes.BindConflict
	)
	block, gold := ptr.To(corev1.PersistentVolumeBlock), ptr.To("gold")
	labeled := func(d *corev1.PersistentVolume) { d.Labels = map[string]string{"disk": "fast"} }
	modes := func(modes ...corev1.PersistentVolumeAccessMode) change {
		return func(d *corev1.PersistentVolume) { d.Spec.AccessModes = modes }
	}
	phase := func(phase corev1.PersistentVolumePhase) change {
		return func(d *corev1.PersistentVolume) { d.Status.Phase = phase }
	}
	class := func(name, annotation string) change {
		return func(d *corev1.PersistentVolume) {
			if d.Spec.StorageClassName = name; annotation != "" {
				d.Annotations = map[string]string{corev1.BetaStorageClassAnnotation: annotation}
			}
		}
	}
	fast := func(c *corev1.PersistentVolumeClaim) {
		c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"disk": "fast"}}
	}
	shared := func(c *corev1.PersistentVolumeClaim) {
		c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadOnlyMany}
	}
	for name, tt := range map[string]struct {
		claim   func(*corev1.PersistentVolumeClaim)
		volumes []*corev1.PersistentVolume
		want    string
	}{
		"none":                         {nil, nil, none},
		"the smallest":                 {nil, []*corev1.PersistentVolume{sized("a", "3Gi"), sized("b", "2Gi")}, b},
		"the first by name":            {nil, []*corev1.PersistentVolume{sized("b", "2Gi"), sized("a", "2Gi")}, a},
		"the smallest, from all nodes": {nil, []*corev1.PersistentVolume{sized("a", "3Gi"), sized("b", "2Gi", anywhere)}, b},
		"the smallest, from this node": {nil, []*corev1.PersistentVolume{sized("a", "2Gi"), sized("b", "3Gi", anywhere)}, a},
		"beside larger ones":           {nil, []*corev1.PersistentVolume{sized("a", "3Gi"), sized("c", "3Gi", anywhere), sized("b", "2Gi", anywhere), sized("d", "4Gi")}, b},
		"from all nodes":               {nil, []*corev1.PersistentVolume{sized("b", "2Gi", anywhere)}, b},
		"from no selected node":        {nil, []*corev1.PersistentVolume{sized("b", "2Gi", func(d *corev1.PersistentVolume) { d.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{} })}, b},
		"from the zone":                {nil, []*corev1.PersistentVolume{sized("b", "2Gi", on(corev1.LabelTopologyZone, "zone-n"))}, b},
		"from another zone":            {nil, []*corev1.PersistentVolume{sized("b", "2Gi", on(corev1.LabelTopologyZone, "zone-m"))}, none},
		"the nearest of several":       {nil, []*corev1.PersistentVolume{sized("c", "2Gi", on(corev1.LabelTopologyZone, "zone-m")), sized("d", "2Gi", on(corev1.LabelHostname, "m")), sized("b", "4Gi", anywhere), sized("a", "3Gi")}, a},
		"the zone and the host":        {nil, []*corev1.PersistentVolume{sized("b", "2Gi", on(corev1.LabelTopologyZone, "zone-n"), and(corev1.LabelHostname, "n"))}, b},
		"the zone and another host":    {nil, []*corev1.PersistentVolume{sized("b", "2Gi", on(corev1.LabelTopologyZone, "zone-n"), and(corev1.LabelHostname, "m"))}, none},
		"just large enough":            {nil, []*corev1.PersistentVolume{sized("b", "1Gi")}, b},
		"too small":                    {nil, []*corev1.PersistentVolume{sized("b", "1023Mi")}, none},
		"about to go":                  {nil, []*corev1.PersistentVolume{sized("b", "2Gi", func(d *corev1.PersistentVolume) { d.DeletionTimestamp = ptr.To(metav1.Now()) })}, none},
		"released":                     {nil, []*corev1.PersistentVolume{sized("b", "2Gi", phase(corev1.VolumeReleased))}, none},
		"of another claim":             {nil, []*corev1.PersistentVolume{sized("b", "2Gi", forClaim("ns", "y", ""))}, none},
		"of another namespace":         {nil, []*corev1.PersistentVolume{sized("b", "2Gi", forClaim("other", "x", ""))}, none},
		"of one of that name before":   {nil, []*corev1.PersistentVolume{sized("b", "2Gi", forClaim("ns", "x", "before"))}, none},
		"reserved":                     {nil, []*corev1.PersistentVolume{sized("a", "2Gi"), sized("b", "3Gi", forClaim("ns", "x", ""))}, own},
		"reserved, by name":            {nil, []*corev1.PersistentVolume{sized("b", "3Gi", forClaim("ns", "x", "")), sized("c", "2Gi")}, own},
		"reserved twice":               {nil, []*corev1.PersistentVolume{sized("a", "3Gi", forClaim("ns", "x", "")), sized("b", "2Gi", forClaim("ns", "x", ""))}, own},
		"reserved, before the binder":  {nil, []*corev1.PersistentVolume{sized("a", "2Gi"), sized("b", "3Gi", forClaim("ns", "x", "x"))}, ""},
		"reserved, and out of reach":   {nil, []*corev1.PersistentVolume{sized("a", "2Gi"), sized("b", "3Gi", forClaim("ns", "x", ""), on(corev1.LabelHostname, "m"))}, none},
		"reserved, and too small":      {nil, []*corev1.PersistentVolume{sized("a", "2Gi"), sized("b", "1Mi", forClaim("ns", "x", ""))}, a},
		"reserved, pending":            {nil, []*corev1.PersistentVolume{sized("b", "2Gi", forClaim("ns", "x", ""), phase(corev1.VolumePending))}, own},
		"with labels":                  {fast, []*corev1.PersistentVolume{sized("a", "2Gi"), sized("b", "3Gi", labeled)}, b},
		"reserved, without labels":     {fast, []*corev1.PersistentVolume{sized("b", "2Gi", forClaim("ns", "x", ""))}, own},
		"for many":                     {shared, []*corev1.PersistentVolume{sized("a", "2Gi", modes(corev1.ReadWriteOnce)), sized("b", "3Gi", modes(corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOnce))}, b},
		"reserved, for one":            {shared, []*corev1.PersistentVolume{sized("b", "2Gi", modes(corev1.ReadWriteOnce), forClaim("ns", "x", ""))}, own},
		"a block device":               {func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = block }, []*corev1.PersistentVolume{sized("a", "2Gi"), sized("b", "3Gi", func(d *corev1.PersistentVolume) { d.Spec.VolumeMode = block })}, b},
		"no block device":              {nil, []*corev1.PersistentVolume{sized("a", "2Gi", func(d *corev1.PersistentVolume) { d.Spec.VolumeMode = block }), sized("b", "3Gi", func(d *corev1.PersistentVolume) { d.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeFilesystem) })}, b},
		"with attributes":              {func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeAttributesClassName = gold }, []*corev1.PersistentVolume{sized("a", "2Gi"), sized("b", "3Gi", func(d *corev1.PersistentVolume) { d.Spec.VolumeAttributesClassName = gold })}, b},
		"without attributes":           {nil, []*corev1.PersistentVolume{sized("a", "2Gi", func(d *corev1.PersistentVolume) { d.Spec.VolumeAttributesClassName = gold }), sized("b", "3Gi", func(d *corev1.PersistentVolume) { d.Spec.VolumeAttributesClassName = ptr.To("") })}, b},
		"of another class":             {nil, []*corev1.PersistentVolume{sized("a", "2Gi", class("other", "")), sized("c", "2Gi", class("local", "other")), sized("b", "3Gi", class("", "local"))}, b},
		"of the class of an annotation": {func(c *corev1.PersistentVolumeClaim) {
			c.Spec.StorageClassName = ptr.To("other")
			c.Annotations = map[string]string{corev1.BetaStorageClassAnnotation: "local"}
		}, []*corev1.PersistentVolume{sized("b", "2Gi")}, b},
		"with affinity that is not read": {nil, []*corev1.PersistentVolume{sized("b", "2Gi", operator("Near"))}, none},
	} {
		t.Run(name, func(t *testing.T) {
			x := claim("x", "local")
			if tt.claim != nil {
				tt.claim(x)
			}
			run(t, func(t *testing.T, s *server, v *volumes.Volumes) {
				want(t, tt.want, chosen(t, s, v, pod("p", "x")))
			}, zoned, with(x), func(s *server) {
				for _, d := range tt.volumes {
					s.volumes.Put(d)
				}
			})
		})
	}
}

// and returns a change that restricts the only term of a volume further.
func and(key string, values ...string) func(*corev1.PersistentVolume) {
	return func(d *corev1.PersistentVolume) {
		term := &d.Spec.NodeAffinity.Required.NodeSelectorTerms[0]
		term.MatchExpressions = append(term.MatchExpressions, corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values})
	}
}

func operator(o corev1.NodeSelectorOperator) func(*corev1.PersistentVolume) {
	return func(d *corev1.PersistentVolume) {
		d.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Operator = o
	}
}

// TestSeveralClaims: the smaller claims choose first, each a volume of its own; what is left is made.
func TestSeveralClaims(t *testing.T) {
	large := claim("x", "local")
	large.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("2Gi")
	for name, tt := range map[string]struct {
		claims  []any
		volumes []any
		want    string
	}{
		"by size":               {[]any{large, claim("y", "local")}, []any{sized("a", "2Gi"), sized("b", "3Gi")}, "a for ns/y uid-y yes, b for ns/x uid-x yes"},
		"of one size":           {[]any{claim("x", "local"), claim("y", "local")}, []any{sized("a", "2Gi"), sized("b", "3Gi")}, "a for ns/x uid-x yes, b for ns/y uid-y yes"},
		"here and anywhere":     {[]any{claim("x", "local"), claim("y", "local")}, []any{sized("a", "2Gi", anywhere), sized("b", "3Gi")}, "a for ns/x uid-x yes, b for ns/y uid-y yes"},
		"anywhere":              {[]any{claim("x", "local"), claim("y", "local")}, []any{sized("a", "2Gi", anywhere), sized("b", "3Gi", anywhere)}, "a for ns/x uid-x yes, b for ns/y uid-y yes"},
		"too few":               {[]any{claim("x", "local"), claim("y", "local")}, []any{sized("a", "2Gi")}, volumes.BindConflict},
		"the other is made":     {[]any{claim("x", "local"), claim("y", "made")}, []any{sized("a", "2Gi")}, "a for ns/x uid-x yes, y on n"},
		"nothing and one made":  {[]any{claim("x", "local"), claim("y", "made")}, nil, volumes.BindConflict},
		"two are made":          {[]any{claim("x", "made"), claim("y", "made")}, nil, "x on n, y on n"},
		"bound, and to be made": {[]any{of("bound", "local"), claim("y", "made")}, []any{sized("bound", "2Gi")}, "y on n"},
		"bound, out of reach, and none left": {[]any{of("bound", "local"), claim("y", "local")}, []any{sized("bound", "2Gi", on(corev1.LabelHostname, "m"))},
			volumes.NodeConflict + ", " + volumes.BindConflict},
		"bound to nothing, and none left": {[]any{of("gone", "local"), claim("y", "local")}, nil, volumes.BindConflict + ", " + volumes.VolumeMissing},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, s *server, v *volumes.Volumes) {
				want(t, tt.want, chosen(t, s, v, pod("p", "x", "y")))
			}, zoned, with(tt.claims...), with(tt.volumes...))
		})
	}
}

// TestBoundClaims: the first bound claim that keeps a pod off a node says why.
func TestBoundClaims(t *testing.T) {
	second := func(volume string) *corev1.PersistentVolumeClaim {
		c := of(volume, "local")
		c.Name = "y"
		return c
	}
	named := func(d *corev1.PersistentVolume) {
		d.Spec.NodeAffinity.Required.NodeSelectorTerms = []corev1.NodeSelectorTerm{{
			MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"m"}}},
		}}
	}
	here, there := sized("here", "1Gi"), sized("there", "1Gi", on(corev1.LabelHostname, "m"))
	for name, tt := range map[string]struct {
		x, y string
		want string
	}{
		"both here":                    {"here", "here", ""},
		"both anywhere":                {"anywhere", "nowhere", ""},
		"the second elsewhere":         {"here", "there", volumes.NodeConflict},
		"the second missing":           {"here", "gone", volumes.VolumeMissing},
		"missing and elsewhere":        {"gone", "there", volumes.VolumeMissing},
		"elsewhere and missing":        {"there", "gone", volumes.NodeConflict},
		"elsewhere and here":           {"there", "here", volumes.NodeConflict},
		"by a name, which is no label": {"named", "here", ""},
		"affinity that is not read":    {"odd", "here", volumes.NodeConflict},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, s *server, v *volumes.Volumes) {
				want(t, tt.want, reasons(t, s, v, pod("p", "x", "y"), "n"))
				if !v.Bound(pod("p", "x", "y")) {
					t.Error("something is left to bind")
				}
			}, with(of(tt.x, "local"), second(tt.y), here, there, sized("named", "1Gi", named), sized("odd", "1Gi", operator("Near")), sized("anywhere", "1Gi", anywhere),
				sized("nowhere", "1Gi", func(d *corev1.PersistentVolume) { d.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{} }),
				csiNode(nil))) // which says of no plugin that it is replaced
		})
	}
}

// TestWhenClaimsAreBound: by its class a claim waits for a pod's node, or has to be bound before.
func TestWhenClaimsAreBound(t *testing.T) {
	class := func(name string, mode *storagev1.VolumeBindingMode) *storagev1.StorageClass {
		return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: "disk.example.com", VolumeBindingMode: mode}
	}
	promised := claim("x", "made")
	promised.Spec.VolumeName = "d"
	marked := claim("x", "made")
	marked.Annotations = map[string]string{completed: "yes"}
	unnamed := claim("x", "")
	unnamed.Spec.StorageClassName = nil
	for name, tt := range map[string]struct {
		claim     *corev1.PersistentVolumeClaim
		immediate int
		unbound   bool
		err       string
	}{
		"with the pod":        {claim("x", "made"), 0, true, ""},
		"at once":             {claim("x", "now"), 1, false, ""},
		"no mode":             {claim("x", "unset"), 0, false, `VolumeBindingMode not set for StorageClass "unset"`},
		"no such class":       {claim("x", "none"), 1, false, ""},
		"no class":            {claim("x", ""), 1, false, ""},
		"not named":           {unnamed, 1, false, ""},
		"has a volume's name": {promised, 1, false, ""},
		"is marked only":      {marked, 0, true, ""},
		"bound":               {of("d", "made"), 0, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, _ *server, v *volumes.Volumes) {
				claims, err := v.Of(pod("p", "x"))
				if tt.err != "" {
					if err == nil || err.Error() != tt.err {
						t.Errorf("error %v, want %s", err, tt.err)
					}
					return
				}
				if err != nil || claims.Immediate != tt.immediate || claims.Unbound() != tt.unbound {
					t.Errorf("%d to be bound before, unbound %t, error %v", claims.Immediate, claims.Unbound(), err)
				}
				if bound := !tt.unbound && tt.immediate == 0; v.Bound(pod("p", "x")) != bound {
					t.Errorf("bound is not %t", bound)
				}
			}, with(tt.claim, class("now", ptr.To(storagev1.VolumeBindingImmediate)), class("unset", nil)))
		})
	}
}

// TestWhereVolumesAreMade: topologies of a class, and the room that its driver publishes.
func TestWhereVolumesAreMade(t *testing.T) {
	zone := func(values ...string) corev1.TopologySelectorTerm {
		return corev1.TopologySelectorTerm{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: corev1.LabelTopologyZone, Values: values}}}
	}
	both := zone("zone-n")
	both.MatchLabelExpressions = append(both.MatchLabelExpressions, corev1.TopologySelectorLabelRequirement{Key: corev1.LabelHostname, Values: []string{"n"}})
	contradiction := both.DeepCopy()
	contradiction.MatchLabelExpressions[1].Values = []string{"m"}
	room := func(changes ...func(*storagev1.CSIStorageCapacity)) *storagev1.CSIStorageCapacity {
		c := &storagev1.CSIStorageCapacity{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}, StorageClassName: "zoned",
			NodeTopology: &metav1.LabelSelector{}, Capacity: ptr.To(resource.MustParse("1Gi")),
		}
		for _, change := range changes {
			change(c)
		}
		return c
	}
	limited := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "disk.example.com"}, Spec: storagev1.CSIDriverSpec{StorageCapacity: ptr.To(true)}}
	silent := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "disk.example.com"}}
	sizeless := claim("x", "zoned")
	sizeless.Spec.Resources.Requests = nil
	for name, tt := range map[string]struct {
		topologies []corev1.TopologySelectorTerm
		objects    []any
		want       string
	}{
		"everywhere":                  {nil, nil, ""},
		"in the zone":                 {[]corev1.TopologySelectorTerm{zone("zone-m", "zone-n")}, nil, ""},
		"in another":                  {[]corev1.TopologySelectorTerm{zone("zone-m")}, nil, volumes.BindConflict},
		"in one of two":               {[]corev1.TopologySelectorTerm{zone("zone-m"), zone("zone-n")}, nil, ""},
		"on a host in it":             {[]corev1.TopologySelectorTerm{both}, nil, ""},
		"on another host in it":       {[]corev1.TopologySelectorTerm{*contradiction}, nil, volumes.BindConflict},
		"an empty term":               {[]corev1.TopologySelectorTerm{{}}, nil, volumes.BindConflict},
		"an empty term and the zone":  {[]corev1.TopologySelectorTerm{{}, zone("zone-n")}, nil, ""},
		"of no zone":                  {[]corev1.TopologySelectorTerm{zone()}, nil, volumes.BindConflict},
		"of no zone, and the zone":    {[]corev1.TopologySelectorTerm{zone(), zone("zone-n")}, nil, ""},
		"just enough room":            {nil, []any{limited, room()}, ""},
		"too little":                  {nil, []any{limited, room(func(c *storagev1.CSIStorageCapacity) { c.Capacity = ptr.To(resource.MustParse("1023Mi")) })}, volumes.NotEnoughSpace},
		"too little that nobody sees": {nil, []any{silent, room(func(c *storagev1.CSIStorageCapacity) { c.Capacity = ptr.To(resource.MustParse("1Mi")) })}, ""},
		"too little, and no driver":   {nil, []any{room(func(c *storagev1.CSIStorageCapacity) { c.Capacity = ptr.To(resource.MustParse("1Mi")) })}, ""},
		"too little for one":          {nil, []any{limited, room(func(c *storagev1.CSIStorageCapacity) { c.MaximumVolumeSize = ptr.To(resource.MustParse("1Mi")) })}, volumes.NotEnoughSpace},
		"enough for one, if not now": {nil, []any{limited, room(func(c *storagev1.CSIStorageCapacity) {
			c.Capacity, c.MaximumVolumeSize = ptr.To(resource.MustParse("1Mi")), ptr.To(resource.MustParse("1Gi"))
		})}, ""},
		"nobody knows how much": {nil, []any{limited, room(func(c *storagev1.CSIStorageCapacity) { c.Capacity = nil })}, volumes.NotEnoughSpace},
		"of another class":      {nil, []any{limited, room(func(c *storagev1.CSIStorageCapacity) { c.StorageClassName = "made" })}, volumes.NotEnoughSpace},
		"nowhere":               {nil, []any{limited, room(func(c *storagev1.CSIStorageCapacity) { c.NodeTopology = nil })}, volumes.NotEnoughSpace},
		"elsewhere": {nil, []any{limited, room(func(c *storagev1.CSIStorageCapacity) {
			c.NodeTopology.MatchLabels = map[string]string{corev1.LabelTopologyZone: "zone-m"}
		})}, volumes.NotEnoughSpace},
		"here": {nil, []any{limited, room(func(c *storagev1.CSIStorageCapacity) {
			c.NodeTopology.MatchLabels = map[string]string{corev1.LabelTopologyZone: "zone-n"}
		})}, ""},
		"by a selector that is none": {nil, []any{limited, room(func(c *storagev1.CSIStorageCapacity) {
			c.NodeTopology.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "k", Operator: "Near"}}
		})}, volumes.NotEnoughSpace},
		"no room, but for no size":     {nil, []any{limited, sizeless}, ""},
		"room, but not in this zone":   {[]corev1.TopologySelectorTerm{zone("zone-m")}, []any{limited, room()}, volumes.BindConflict},
		"no room, and not in this one": {[]corev1.TopologySelectorTerm{zone("zone-m")}, []any{limited}, volumes.BindConflict},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, s *server, v *volumes.Volumes) {
				want(t, tt.want, reasons(t, s, v, pod("p", "x"), "n"))
				if undo, err := v.Reserve(pod("p", "x"), "n"); (err == nil) != (tt.want == "") || err != nil && !strings.HasSuffix(err.Error(), tt.want) || (undo == nil) != (err != nil) {
					t.Errorf("reserved: %v", err)
				}
			}, zoned, with(claim("x", "zoned"), &storagev1.StorageClass{
				ObjectMeta: metav1.ObjectMeta{Name: "zoned"}, Provisioner: "disk.example.com", AllowedTopologies: tt.topologies,
				VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
			}), with(tt.objects...))
		})
	}
}
