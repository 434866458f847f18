package limitranger_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/admissiontest"
	"github.com/keelson-dev/keelson/admission/limitranger"
	"github.com/keelson-dev/keelson/informer"
)

var _ limitranger.Ranges = (*informer.Informer[*corev1.LimitRange])(nil)

// ranges is a cache that does not change.
type ranges []*corev1.LimitRange

func (r ranges) List(namespace string) []*corev1.LimitRange {
	var found []*corev1.LimitRange
	for _, one := range r {
		if one.Namespace == namespace {
			found = append(found, one)
		}
	}
	return found
}

type item = corev1.LimitRangeItem

func limits(items ...item) *corev1.LimitRange {
	return &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}, Spec: corev1.LimitRangeSpec{Limits: items}}
}

// amounts returns a list of resources from pairs of a name and a quantity.
func amounts(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

func container(name string, requests, limits corev1.ResourceList) corev1.Container {
	return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}}
}

func pod(containers ...corev1.Container) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}, Spec: corev1.PodSpec{Containers: containers}}
}

func withInit(p *corev1.Pod, containers ...corev1.Container) *corev1.Pod {
	p.Spec.InitContainers = containers
	return p
}

func noted(p *corev1.Pod, note string) *corev1.Pod {
	p.Annotations = map[string]string{"kubernetes.io/limit-ranger": note}
	return p
}

const ofContainer, ofPod, ofClaim = corev1.LimitTypeContainer, corev1.LimitTypePod, corev1.LimitTypePersistentVolumeClaim

func TestDefaults(t *testing.T) {
	defaults := limits(item{Type: ofContainer, Default: amounts("cpu", "2", "memory", "1Gi"), DefaultRequest: amounts("memory", "1Mi", "cpu", "1")})
	none := corev1.ResourceList{}
	for name, tt := range map[string]struct {
		ranges      ranges
		given, want *corev1.Pod
	}{
		"no ranges":                {nil, pod(container("c", nil, nil)), pod(container("c", nil, nil))},
		"of pods":                  {ranges{limits(item{Type: ofPod, Default: amounts("cpu", "1")})}, pod(container("c", nil, nil)), pod(container("c", none, none))},
		"of nothing":               {ranges{limits()}, pod(container("c", nil, nil)), pod(container("c", none, none))},
		"all":                      {ranges{defaults}, pod(container("c", nil, nil)), noted(pod(container("c", amounts("cpu", "1", "memory", "1Mi"), amounts("cpu", "2", "memory", "1Gi"))), "LimitRanger plugin set: cpu, memory request for container c; cpu, memory limit for container c")},
		"what is lacking":          {ranges{defaults}, pod(container("c", amounts("cpu", "3", "memory", "1"), amounts("cpu", "4"))), noted(pod(container("c", amounts("cpu", "3", "memory", "1"), amounts("cpu", "4", "memory", "1Gi"))), "LimitRanger plugin set: memory limit for container c")},
		"a request":                {ranges{defaults}, pod(container("c", amounts("memory", "1"), amounts("cpu", "4", "memory", "1"))), noted(pod(container("c", amounts("memory", "1", "cpu", "1"), amounts("cpu", "4", "memory", "1"))), "LimitRanger plugin set: cpu request for container c")},
		"nothing lacks":            {ranges{defaults}, pod(container("c", amounts("cpu", "3", "memory", "1"), amounts("cpu", "4", "memory", "1"))), pod(container("c", amounts("cpu", "3", "memory", "1"), amounts("cpu", "4", "memory", "1")))},
		"another item":             {ranges{limits(item{Type: ofContainer, Default: amounts("cpu", "1")}, item{Type: ofContainer, Default: amounts("cpu", "2")})}, pod(container("c", nil, nil)), noted(pod(container("c", none, amounts("cpu", "2"))), "LimitRanger plugin set: cpu limit for container c")},
		"another range":            {ranges{limits(item{Type: ofContainer, Default: amounts("cpu", "1")}), limits(item{Type: ofContainer, Default: amounts("cpu", "2", "memory", "3")})}, pod(container("c", nil, nil)), noted(pod(container("c", none, amounts("cpu", "1", "memory", "3"))), "LimitRanger plugin set: memory limit for container c")},
		"another range, in vain":   {ranges{limits(item{Type: ofContainer, Default: amounts("cpu", "1")}), limits(item{Type: ofContainer, Default: amounts("cpu", "2")})}, pod(container("c", nil, nil)), noted(pod(container("c", none, amounts("cpu", "1"))), "LimitRanger plugin set: cpu limit for container c")},
		"all containers":           {ranges{limits(item{Type: ofContainer, Default: amounts("cpu", "1")})}, withInit(pod(container("a", nil, nil), container("b", nil, nil)), container("i", nil, nil)), noted(withInit(pod(container("a", none, amounts("cpu", "1")), container("b", none, amounts("cpu", "1"))), container("i", none, amounts("cpu", "1"))), "LimitRanger plugin set: cpu limit for container a; cpu limit for container b; cpu limit for init container i")},
		"a range of another place": {ranges{{ObjectMeta: metav1.ObjectMeta{Namespace: "other"}, Spec: defaults.Spec}}, pod(container("c", nil, nil)), pod(container("c", nil, nil))},
	} {
		t.Run(name, func(t *testing.T) {
			p := limitranger.New(tt.ranges)
			r := admissiontest.Create(t, tt.given)
			admissiontest.TestPlugin(t, p, r)
			admissiontest.Admits(t, p, r, tt.want)
		})
	}
}

// TestContainers: a minimum bounds requests and limits from below, a maximum from above, and a ratio both.
func TestContainers(t *testing.T) {
	const forbidden = `pods "p" is forbidden: `
	for name, tt := range map[string]struct {
		item             item
		requests, limits corev1.ResourceList
		refusal          string
	}{
		"the minimum":                {item{Min: amounts("cpu", "100m")}, amounts("cpu", "0.1"), amounts("cpu", "100m"), ""},
		"the minimum, unlimited":     {item{Min: amounts("cpu", "100m")}, amounts("cpu", "0.1"), nil, ""},
		"less than the minimum":      {item{Min: amounts("cpu", "100m")}, amounts("cpu", "99m"), amounts("cpu", "200m"), "minimum cpu usage per Container is 100m, but request is 99m"},
		"a limit below":              {item{Min: amounts("cpu", "100m")}, amounts("cpu", "100m"), amounts("cpu", "99m"), "minimum cpu usage per Container is 100m, but limit is 99m"},
		"no minimal request":         {item{Min: amounts("cpu", "100m")}, nil, amounts("cpu", "1"), "minimum cpu usage per Container is 100m.  No request is specified"},
		"the maximum":                {item{Max: amounts("memory", "1Gi")}, amounts("memory", "1Gi"), amounts("memory", "1Gi"), ""},
		"the maximum, unrequested":   {item{Max: amounts("memory", "1Gi")}, nil, amounts("memory", "1Gi"), ""},
		"a limit above":              {item{Max: amounts("memory", "1Gi")}, amounts("memory", "1Gi"), amounts("memory", "1025Mi"), "maximum memory usage per Container is 1Gi, but limit is 1025Mi"},
		"a request above":            {item{Max: amounts("memory", "1Gi")}, amounts("memory", "1025Mi"), amounts("memory", "1Gi"), "maximum memory usage per Container is 1Gi, but request is 1025Mi"},
		"no limit":                   {item{Max: amounts("memory", "1Gi")}, amounts("memory", "1"), nil, "maximum memory usage per Container is 1Gi.  No limit is specified"},
		"thousandths of too much":    {item{Max: amounts("memory", "27Pi")}, nil, amounts("memory", "28Pi"), "maximum memory usage per Container is 27Pi, but limit is 28Pi"},
		"rounded above thousandths":  {item{Min: amounts("cpu", "1500m")}, amounts("cpu", "1001m"), amounts("cpu", "20P"), ""},
		"the ratio":                  {item{MaxLimitRequestRatio: amounts("cpu", "1.5")}, amounts("cpu", "2"), amounts("cpu", "3"), ""},
		"a larger ratio":             {item{MaxLimitRequestRatio: amounts("cpu", "1.5")}, amounts("cpu", "2"), amounts("cpu", "4"), "cpu max limit to request ratio per Container is 1500m, but provided ratio is 2.000000"},
		"a ratio beyond thousandths": {item{MaxLimitRequestRatio: amounts("cpu", "10P")}, amounts("cpu", "1m"), amounts("cpu", "10k"), ""},
		"a ratio to nothing":         {item{MaxLimitRequestRatio: amounts("cpu", "2")}, nil, amounts("cpu", "4"), "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0"},
		"a ratio to zero":            {item{MaxLimitRequestRatio: amounts("cpu", "2")}, amounts("cpu", "0"), amounts("cpu", "4"), "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0"},
		"a ratio of nothing":         {item{MaxLimitRequestRatio: amounts("cpu", "2")}, amounts("cpu", "1"), nil, "cpu max limit to request ratio per Container is 2, but no limit is specified or limit is 0"},
		"a ratio of zero":            {item{MaxLimitRequestRatio: amounts("cpu", "2")}, amounts("cpu", "1"), amounts("cpu", "0"), "cpu max limit to request ratio per Container is 2, but no limit is specified or limit is 0"},
		"everything": {item{Min: amounts("memory", "1", "cpu", "1"), Max: amounts("cpu", "2"), MaxLimitRequestRatio: amounts("cpu", "2")}, nil, nil,
			"[minimum cpu usage per Container is 1.  No request is specified, minimum memory usage per Container is 1.  No request is specified, " +
				"maximum cpu usage per Container is 2.  No limit is specified, cpu max limit to request ratio per Container is 2, but no request is specified or request is 0]"},
	} {
		t.Run(name, func(t *testing.T) {
			tt.item.Type = ofContainer
			p := limitranger.New(ranges{limits(), limits(item{Type: "example.com/x", Min: tt.item.Min}, tt.item)})
			if tt.refusal != "" {
				tt.refusal = forbidden + tt.refusal
			}
			given := container("c", tt.requests, tt.limits)
			fine := container("d", amounts("cpu", "1500m", "memory", "1Gi"), amounts("cpu", "1500m", "memory", "1Gi"))
			for _, where := range []*corev1.Pod{pod(given), pod(fine, given), withInit(pod(fine), given)} {
				validates(t, p, admissiontest.Create(t, where), tt.refusal)
			}
		})
	}
}

// validates fails the test if the plugin validates otherwise.
func validates(t *testing.T, p *limitranger.Plugin, r *admission.Request, refusal string) {
	t.Helper()
	got := ""
	if err := p.Validate(t.Context(), r); err != nil {
		got = err.Error()
	}
	if got != refusal {
		t.Errorf("got %q, want %q", got, refusal)
	}
}

// TestPods: a pod has what its containers have together, or its largest init container, or what it states itself.
func TestPods(t *testing.T) {
	one, two := container("c", amounts("cpu", "1"), amounts("cpu", "2")), container("d", amounts("cpu", "2"), amounts("cpu", "3"))
	sidecar := *one.DeepCopy()
	sidecar.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	stated := func(requests, limits corev1.ResourceList) *corev1.Pod {
		p := pod(one)
		p.Spec.Resources = &corev1.ResourceRequirements{Requests: requests, Limits: limits}
		p.Spec.Overhead = amounts("cpu", "100")
		return p
	}
	for name, tt := range map[string]struct {
		item    item
		pod     *corev1.Pod
		refusal string
	}{
		"the minimum":            {item{Min: amounts("cpu", "3")}, pod(one, two), ""},
		"less":                   {item{Min: amounts("cpu", "4")}, pod(one, two), "minimum cpu usage per Pod is 4, but request is 3"},
		"the maximum":            {item{Max: amounts("cpu", "5")}, pod(one, two), ""},
		"more":                   {item{Max: amounts("cpu", "4")}, pod(one, two), "maximum cpu usage per Pod is 4, but limit is 5"},
		"the ratio":              {item{MaxLimitRequestRatio: amounts("cpu", "1.5")}, pod(one, two), "cpu max limit to request ratio per Pod is 1500m, but provided ratio is 1.666667"},
		"no limit":               {item{Max: amounts("memory", "4")}, pod(one), "maximum memory usage per Pod is 4.  No limit is specified"},
		"a large init container": {item{Max: amounts("cpu", "2")}, withInit(pod(one), two), "maximum cpu usage per Pod is 2, but limit is 3"},
		"a small init container": {item{Max: amounts("cpu", "3")}, withInit(pod(two), one), ""},
		"a sidecar":              {item{Max: amounts("cpu", "4")}, withInit(pod(two), sidecar), "maximum cpu usage per Pod is 4, but limit is 5"},
		"stated":                 {item{Min: amounts("cpu", "7"), Max: amounts("cpu", "8")}, stated(amounts("cpu", "7"), amounts("cpu", "8")), ""},
		"stated too much":        {item{Max: amounts("cpu", "7")}, stated(nil, amounts("cpu", "8")), "maximum cpu usage per Pod is 7, but limit is 8"},
		"stated too little":      {item{Min: amounts("memory", "7")}, stated(amounts("memory", "6"), nil), "minimum memory usage per Pod is 7, but request is 6"},
		"stated huge pages":      {item{Min: amounts("hugepages-2Mi", "2Mi")}, stated(amounts("hugepages-2Mi", "2Mi"), nil), "minimum hugepages-2Mi usage per Pod is 2Mi.  No request is specified"},
		"not overhead":           {item{Max: amounts("cpu", "2")}, stated(nil, nil), ""},
	} {
		t.Run(name, func(t *testing.T) {
			tt.item.Type = ofPod
			if tt.refusal != "" {
				tt.refusal = `pods "p" is forbidden: ` + tt.refusal
			}
			validates(t, limitranger.New(ranges{limits(tt.item)}), admissiontest.Create(t, tt.pod), tt.refusal)
		})
	}
}

func claim(requests corev1.ResourceList) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data"}}
	c.Spec.Resources.Requests = requests
	c.Spec.Resources.Limits = amounts("storage", "100Gi")
	return c
}

func TestClaims(t *testing.T) {
	p := limitranger.New(ranges{limits(
		item{Type: ofContainer, Max: amounts("storage", "1")},
		item{Type: ofClaim, Min: amounts("storage", "1Gi"), Max: amounts("storage", "5Gi"), MaxLimitRequestRatio: amounts("storage", "1"), Default: amounts("storage", "2Gi")},
	)})
	const forbidden = `persistentvolumeclaims "data" is forbidden: `
	for name, tt := range map[string]struct {
		requests corev1.ResourceList
		refusal  string
	}{
		"the minimum": {amounts("storage", "1Gi"), ""},
		"the maximum": {amounts("storage", "5Gi"), ""},
		"less":        {amounts("storage", "1Mi"), "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1Mi"},
		"more":        {amounts("storage", "6Gi"), "maximum storage usage per PersistentVolumeClaim is 5Gi, but request is 6Gi"},
		"nothing":     {nil, "[minimum storage usage per PersistentVolumeClaim is 1Gi.  No request is specified, maximum storage usage per PersistentVolumeClaim is 5Gi.  No request is specified]"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, r := range []*admission.Request{
				admissiontest.Create(t, claim(tt.requests)), admissiontest.Update(t, claim(amounts("storage", "2Gi")), claim(tt.requests)),
			} {
				if tt.refusal != "" {
					admissiontest.Refuses(t, p, r, forbidden+tt.refusal)
				} else {
					admissiontest.Admits(t, p, r, claim(tt.requests))
				}
			}
		})
	}
}

// TestRequests: limits apply to new pods, resizes and claims.
func TestRequests(t *testing.T) {
	p := limitranger.New(ranges{limits(
		item{Type: ofContainer, Max: amounts("cpu", "1"), Default: amounts("cpu", "1")}, item{Type: ofClaim, Max: amounts("storage", "1")},
	)})
	large, ending := pod(container("c", nil, amounts("cpu", "2"))), pod()
	ending.DeletionTimestamp = new(metav1.NewTime(time.Now()))
	endingClaim := claim(nil)
	endingClaim.DeletionTimestamp = ending.DeletionTimestamp
	for name, tt := range map[string]struct {
		request *admission.Request
		refused bool
	}{
		"create":            {admissiontest.Create(t, large), true},
		"update":            {admissiontest.Update(t, large, large), false},
		"resize":            {admissiontest.Update(t, large, large, admissiontest.Subresource("resize")), true},
		"create a resize":   {admissiontest.Create(t, large, admissiontest.Subresource("resize")), false},
		"status":            {admissiontest.Update(t, large, large, admissiontest.Subresource("status")), false},
		"resize at the end": {admissiontest.Update(t, ending, large, admissiontest.Subresource("resize")), false},
		"claim":             {admissiontest.Create(t, claim(amounts("storage", "2"))), true},
		"status of a claim": {admissiontest.Update(t, claim(nil), claim(nil), admissiontest.Subresource("status")), false},
		"resize of a claim": {admissiontest.Update(t, claim(nil), claim(amounts("storage", "2")), admissiontest.Subresource("resize")), false},
		"ending claim":      {admissiontest.Update(t, endingClaim, claim(amounts("storage", "2"))), false},
		"another kind":      {admissiontest.Create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}}), false},
	} {
		t.Run(name, func(t *testing.T) {
			admissiontest.TestPlugin(t, p, tt.request)
			if err := p.Validate(t.Context(), tt.request); (err != nil) != tt.refused {
				t.Errorf("got %v", err)
			}
		})
	}
	if p.Handles(admission.Delete) || p.Handles(admission.Connect) {
		t.Error("deletions are checked")
	}
	resized := admissiontest.Update(t, pod(), pod(container("c", nil, nil)), admissiontest.Subresource("resize"))
	admissiontest.Admits(t, p, resized, noted(pod(container("c", corev1.ResourceList{}, amounts("cpu", "1"))), "LimitRanger plugin set: cpu limit for container c"))
	bare := pod(container("c", nil, nil))
	admissiontest.Admits(t, p, admissiontest.Update(t, bare, bare, admissiontest.Subresource("status")), bare)
	other := func(r *admission.Request) { r.Object = &corev1.Node{} }
	for _, of := range []admissiontest.Object{large, claim(nil)} {
		r := admissiontest.Create(t, of, other)
		err := p.Validate(t.Context(), r)
		if want := "Resource was marked with kind " + r.Kind.Kind + " but was unable to be converted"; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if err := p.Admit(t.Context(), admissiontest.Create(t, large, other)); err == nil {
		t.Error("another type is admitted as a pod")
	}
}

// A namespace whose containers have a limit by default, and may have twice that.
func Example() {
	plugin := limitranger.New(ranges{limits(item{Type: ofContainer, Default: amounts("cpu", "1"), Max: amounts("cpu", "2")})})
	for _, p := range []*corev1.Pod{pod(container("c", nil, nil)), pod(container("c", nil, amounts("cpu", "3")))} {
		r := &admission.Request{
			Operation: admission.Create, Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Resource: corev1.SchemeGroupVersion.WithResource("pods"),
			Namespace: "ns", Name: "p", Object: p,
		}
		fmt.Println(plugin.Admit(context.Background(), r), p.Annotations)
		fmt.Println(plugin.Validate(context.Background(), r))
	}
	// Output:
	// <nil> map[kubernetes.io/limit-ranger:LimitRanger plugin set: cpu limit for container c]
	// <nil>
	// <nil> map[]
	// pods "p" is forbidden: maximum cpu usage per Container is 2, but limit is 3
}
