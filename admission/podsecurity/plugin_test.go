package podsecurity_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	psaconfig "k8s.io/pod-security-admission/admission/api"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/admissiontest"
	"github.com/keelson-dev/keelson/admission/podsecurity"
)

const prefix = "pod-security.kubernetes.io/"

// namespaces finds namespaces by name.
type namespaces map[string]*corev1.Namespace

func (n namespaces) Get(_, name string) (*corev1.Namespace, bool) {
	ns, ok := n[name]
	return ns, ok
}

// list returns its pods for every namespace.
type list []*corev1.Pod

func (l list) List(string) []*corev1.Pod { return l }

// namespace returns a namespace with labels, given as mode, value and so on.
func namespace(name string, labels ...string) *corev1.Namespace {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for i := 0; i < len(labels); i += 2 {
		metav1.SetMetaDataLabel(&ns.ObjectMeta, prefix+labels[i], labels[i+1])
	}
	return ns
}

// witness records the plugin's warnings and annotations.
type witness struct {
	mu       sync.Mutex
	warnings []string
	notes    map[string]string
}

func (w *witness) warn(_ context.Context, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.warnings = append(w.warnings, text)
}

func (w *witness) annotate(_ context.Context, key, value string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.notes == nil {
		w.notes = map[string]string{}
	}
	w.notes[strings.TrimPrefix(key, prefix)] = value
}

func plugin(t *testing.T, o podsecurity.Options, pods list, all ...*corev1.Namespace) (*podsecurity.Plugin, *witness) {
	t.Helper()
	known := namespaces{}
	for _, ns := range all {
		known[ns.Name] = ns
	}
	w := &witness{}
	o.Warn, o.Annotate = w.warn, w.annotate
	p, err := podsecurity.New(known, pods, o)
	if err != nil {
		t.Fatal(err)
	}
	return p, w
}

func pod(changes ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	for _, change := range changes {
		change(p)
	}
	return p
}

func hostNetwork(p *corev1.Pod) { p.Spec.HostNetwork = true }

func strict(p *corev1.Pod) {
	yes, no := true, false
	p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: &yes, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}
	p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{
		AllowPrivilegeEscalation: &no, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

const (
	pre        = `pods "p" is forbidden: `
	baseline   = `violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)`
	restricted = `allowPrivilegeEscalation != false (container "c" must set securityContext.allowPrivilegeEscalation=false), ` +
		`unrestricted capabilities (container "c" must set securityContext.capabilities.drop=["ALL"]), ` +
		`runAsNonRoot != true (pod or container "c" must set securityContext.runAsNonRoot=true), ` +
		`seccompProfile (pod or container "c" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")`
)

func TestPods(t *testing.T) {
	for name, test := range map[string]struct {
		labels   []string
		pod      *corev1.Pod
		refusal  string
		warnings []string
		notes    map[string]string
	}{
		"privileged": {nil, pod(hostNetwork), "", nil, map[string]string{"enforce-policy": "privileged:latest"}},
		"baseline":   {[]string{"enforce", "baseline"}, pod(), "", nil, map[string]string{"enforce-policy": "baseline:latest"}},
		"not baseline": {[]string{"enforce", "baseline"}, pod(hostNetwork), baseline, nil, map[string]string{
			"enforce-policy": "baseline:latest"}},
		"restricted":     {[]string{"enforce", "restricted"}, pod(strict), "", nil, map[string]string{"enforce-policy": "restricted:latest"}},
		"not restricted": {[]string{"enforce", "restricted"}, pod(), `violates PodSecurity "restricted:latest": ` + restricted, nil, map[string]string{"enforce-policy": "restricted:latest"}},
		"an old version asks for less": {[]string{"enforce", "restricted", "enforce-version", "v1.7"}, pod(), `violates PodSecurity "restricted:v1.7": runAsNonRoot != true (pod or container "c" must set securityContext.runAsNonRoot=true)`, nil,
			map[string]string{"enforce-policy": "restricted:v1.7"}},
		"a future version": {[]string{"enforce", "baseline", "enforce-version", "v1.99"}, pod(hostNetwork), `violates PodSecurity "baseline:v1.99": host namespaces (hostNetwork=true)`, nil,
			map[string]string{"enforce-policy": "baseline:v1.99"}},
		"warn": {[]string{"warn", "baseline"}, pod(hostNetwork), "", []string{`would violate PodSecurity "baseline:latest": host namespaces (hostNetwork=true)`}, map[string]string{"enforce-policy": "privileged:latest"}},
		"audit": {[]string{"audit", "baseline"}, pod(hostNetwork), "", nil, map[string]string{
			"enforce-policy": "privileged:latest", "audit-violations": `would violate PodSecurity "baseline:latest": host namespaces (hostNetwork=true)`}},
		"no warning with a refusal": {[]string{"enforce", "baseline", "warn", "baseline", "audit", "baseline"}, pod(hostNetwork), baseline, nil, map[string]string{
			"enforce-policy": "baseline:latest", "audit-violations": `would violate PodSecurity "baseline:latest": host namespaces (hostNetwork=true)`}},
		"warned of more than enforced": {[]string{"enforce", "baseline", "warn", "restricted"}, pod(), "", []string{`would violate PodSecurity "restricted:latest": ` + restricted}, map[string]string{"enforce-policy": "baseline:latest"}},
		"an invalid label": {[]string{"enforce", "strict"}, pod(), `violates PodSecurity "restricted:latest": ` + restricted, nil, map[string]string{"enforce-policy": "restricted:latest",
			"error": `Failed to parse policy: metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: "strict": must be one of privileged, baseline, restricted`}},
	} {
		t.Run(name, func(t *testing.T) {
			p, w := plugin(t, podsecurity.Options{}, nil, namespace("ns", test.labels...))
			r := admissiontest.Create(t, test.pod)
			if test.refusal != "" {
				admissiontest.Refuses(t, p, r, pre+test.refusal)
			} else {
				admissiontest.Admits(t, p, r, test.pod)
			}
			if !slices.Equal(w.warnings, test.warnings) || fmt.Sprint(w.notes) != fmt.Sprint(test.notes) {
				t.Errorf("warned of %q, noted %q", w.warnings, w.notes)
			}
		})
	}
}

func TestUpdates(t *testing.T) {
	p, _ := plugin(t, podsecurity.Options{}, nil, namespace("ns", "enforce", "baseline"))
	image := func(p *corev1.Pod) { p.Spec.Containers[0].Image = "new" }
	initial := func(image string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.InitContainers = []corev1.Container{{Name: "i", Image: image}} }
	}
	debug := func(image string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e", Image: image}}}
		}
	}
	relabelled := func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} }
	for name, test := range map[string]struct {
		old, changed []func(*corev1.Pod)
		subresource  string
		refused      bool
	}{
		"nothing relevant":       {nil, []func(*corev1.Pod){relabelled}, "", false},
		"an image":               {nil, []func(*corev1.Pod){image}, "", true},
		"an init container":      {nil, []func(*corev1.Pod){initial("a")}, "", true},
		"an init container's":    {[]func(*corev1.Pod){initial("a")}, []func(*corev1.Pod){initial("b")}, "", true},
		"debugging":              {nil, []func(*corev1.Pod){debug("a")}, "ephemeralcontainers", true},
		"debugging as before":    {[]func(*corev1.Pod){debug("a")}, []func(*corev1.Pod){debug("a")}, "ephemeralcontainers", false},
		"debugging with another": {[]func(*corev1.Pod){debug("a")}, []func(*corev1.Pod){debug("b")}, "ephemeralcontainers", true},
		"a status":               {nil, []func(*corev1.Pod){image}, "status", false},
		"a future subresource":   {nil, []func(*corev1.Pod){image}, "tomorrow", true},
	} {
		t.Run(name, func(t *testing.T) {
			old, changed := pod(append(test.old, hostNetwork)...), pod(append(test.changed, hostNetwork)...)
			r := admissiontest.Update(t, old, changed, admissiontest.Subresource(test.subresource))
			if test.refused {
				admissiontest.Refuses(t, p, r, pre+baseline)
				return
			}
			admissiontest.Admits(t, p, r, changed)
		})
	}
	for _, subresource := range []string{"exec", "attach", "binding", "eviction", "log", "portforward", "proxy"} {
		admissiontest.Admits(t, p, admissiontest.Create(t, pod(hostNetwork), admissiontest.Subresource(subresource)), pod(hostNetwork))
	}
	strange := admissiontest.Create(t, pod(), func(r *admission.Request) { r.Object = &corev1.Node{} })
	admissiontest.Refuses(t, p, strange, "failed to decode pod")
	lost := pod()
	lost.Namespace = "lost"
	if e := admissiontest.Refuses(t, p, admissiontest.Create(t, lost), `Internal error occurred: failed to lookup namespace "lost"`); !errors.Is(e, admission.ErrInternal) {
		t.Errorf("got %v", e)
	}
}

func TestWorkloads(t *testing.T) {
	template := corev1.PodTemplateSpec{Spec: pod(hostNetwork).Spec}
	meta := metav1.ObjectMeta{Namespace: "ns", Name: "w"}
	for _, obj := range []admissiontest.Object{
		&corev1.PodTemplate{ObjectMeta: meta, Template: template},
		&corev1.ReplicationController{ObjectMeta: meta, Spec: corev1.ReplicationControllerSpec{Template: &template}},
		&appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Template: template}},
		&appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Template: template}},
		&appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Template: template}},
		&appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Template: template}},
		&batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Template: template}},
		&batchv1.CronJob{ObjectMeta: meta, Spec: batchv1.CronJobSpec{JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: template}}}},
	} {
		t.Run(fmt.Sprintf("%T", obj), func(t *testing.T) {
			p, w := plugin(t, podsecurity.Options{}, nil, namespace("ns", "enforce", "baseline", "audit", "baseline"))
			admissiontest.Admits(t, p, admissiontest.Create(t, obj), obj)
			const would = `would violate PodSecurity "baseline:latest": host namespaces (hostNetwork=true)`
			if !slices.Equal(w.warnings, []string{would}) || len(w.notes) != 1 || w.notes["audit-violations"] != would {
				t.Errorf("warned of %q, noted %q", w.warnings, w.notes)
			}
			p, w = plugin(t, podsecurity.Options{}, nil, namespace("ns", "enforce", "baseline", "warn", "privileged"))
			admissiontest.Admits(t, p, admissiontest.Create(t, obj), obj)
			admissiontest.Admits(t, p, admissiontest.Create(t, obj, admissiontest.Subresource("scale")), obj)
			if len(w.warnings) > 0 || len(w.notes) > 0 {
				t.Errorf("of nothing warned of %q, noted %q", w.warnings, w.notes)
			}
		})
	}
	p, w := plugin(t, podsecurity.Options{}, nil, namespace("ns", "warn", "baseline"))
	bare := &corev1.ReplicationController{ObjectMeta: meta}
	admissiontest.Admits(t, p, admissiontest.Create(t, bare), bare)
	strange := admissiontest.Create(t, bare, func(r *admission.Request) { r.Object = &corev1.Node{} })
	admissiontest.Admits(t, p, strange, &corev1.Node{})
	if len(w.warnings) > 0 || w.notes["error"] == "" {
		t.Errorf("warned of %q, noted %q", w.warnings, w.notes)
	}
}

func TestNamespaces(t *testing.T) {
	const invalid = `Namespace "ns" is invalid: metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: "strict": must be one of privileged, baseline, restricted`
	p, _ := plugin(t, podsecurity.Options{}, nil)
	good, bad := namespace("ns", "enforce", "baseline"), namespace("ns", "enforce", "strict")
	admissiontest.Admits(t, p, admissiontest.Create(t, good), good)
	if e := admissiontest.Refuses(t, p, admissiontest.Create(t, bad), invalid); !errors.Is(e, admission.ErrInvalid) || len(e.Fields) != 1 {
		t.Errorf("got %v", e)
	}
	admissiontest.Refuses(t, p, admissiontest.Update(t, good, bad), invalid)
	admissiontest.Admits(t, p, admissiontest.Update(t, bad, bad), bad) // it was there before
	worse := namespace("ns", "enforce", "stricter")
	admissiontest.Refuses(t, p, admissiontest.Update(t, bad, worse), strings.ReplaceAll(invalid, "strict\"", "stricter\""))
	admissiontest.Admits(t, p, admissiontest.Update(t, good, bad, admissiontest.Subresource("status")), bad)
}

func owned(name, owner string, changes ...func(*corev1.Pod)) *corev1.Pod {
	p, yes := pod(changes...), true
	p.Name = name
	if owner != "" {
		p.OwnerReferences = []metav1.OwnerReference{{UID: types.UID(owner), Controller: &yes}}
	}
	return p
}

func TestPodsOfNamespace(t *testing.T) {
	privileged := func(p *corev1.Pod) {
		yes := true
		p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: &yes}
	}
	class := func(p *corev1.Pod) { name := "vm"; p.Spec.RuntimeClassName = &name }
	pods := list{
		owned("d", "web", hostNetwork), owned("c", "web", hostNetwork), owned("b", "", hostNetwork),
		owned("x", "", privileged), owned("y", ""), owned("z", "", privileged, class),
		owned("m", "", privileged, hostNetwork), owned("n", "", privileged, hostNetwork),
	}
	o := podsecurity.Options{Exemptions: psaconfig.PodSecurityExemptions{RuntimeClasses: []string{"vm"}}}
	warned := []string{
		`existing pods in namespace "ns" violate the new PodSecurity enforce level "baseline:latest"`,
		`b (and 2 other pods): host namespaces`,
		`m (and 1 other pod): host namespaces, privileged`,
		`x: privileged`,
	}
	for name, test := range map[string]struct {
		old, changed *corev1.Namespace
		warned       []string
	}{
		"stricter":            {namespace("ns"), namespace("ns", "enforce", "baseline"), warned},
		"of another version":  {namespace("ns", "enforce", "restricted", "enforce-version", "v1.7"), namespace("ns", "enforce", "baseline"), warned},
		"as before":           {namespace("ns", "enforce", "baseline"), namespace("ns", "enforce", "baseline", "warn", "restricted"), nil},
		"less strict":         {namespace("ns", "enforce", "restricted"), namespace("ns", "enforce", "baseline"), nil},
		"privileged":          {namespace("ns", "enforce", "baseline"), namespace("ns"), nil},
		"privileged as of...": {namespace("ns"), namespace("ns", "enforce", "privileged", "enforce-version", "v1.2"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			p, w := plugin(t, o, slices.Clone(pods))
			admissiontest.Admits(t, p, admissiontest.Update(t, test.old, test.changed), test.changed)
			if !slices.Equal(w.warnings, test.warned) {
				t.Errorf("warned of %q, want %q", w.warnings, test.warned)
			}
		})
	}
	var many list
	for i := range 3002 {
		many = append(many, owned(fmt.Sprintf("p%05d", i), "web"))
	}
	many = append(many, owned("other", "db", hostNetwork)) // one of each comes first
	p, w := plugin(t, o, many)
	changed := namespace("ns", "enforce", "baseline")
	admissiontest.Admits(t, p, admissiontest.Update(t, namespace("ns"), changed), changed)
	want := []string{`new PodSecurity enforce level only checked against the first 3000 of 3003 existing pods`,
		`existing pods in namespace "ns" violate the new PodSecurity enforce level "baseline:latest"`, `other: host namespaces`}
	if !slices.Equal(w.warnings, want) {
		t.Errorf("warned of %q", w.warnings)
	}
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	p, w = plugin(t, o, many)
	if err := p.Validate(ctx, admissiontest.Update(t, namespace("ns"), changed)); err != nil || len(w.warnings) == 0 ||
		w.warnings[0] != `new PodSecurity enforce level only checked against the first 1 of 3003 existing pods` {
		t.Errorf("out of time: %v %q", err, w.warnings)
	}
}

// slow is a list that takes its time.
type slow struct {
	list
	time.Duration
}

func (s slow) List(namespace string) []*corev1.Pod {
	time.Sleep(s.Duration)
	return s.list.List(namespace)
}

// TestTimeForPods: pods are checked for a second at most, or half of the time that the request has left.
func TestTimeForPods(t *testing.T) {
	const cut = `new PodSecurity enforce level only checked against the first 1 of 2 existing pods`
	for _, test := range []struct {
		left, listing time.Duration
		cut           bool
	}{
		{time.Hour, 900 * time.Millisecond, false}, {time.Hour, 1100 * time.Millisecond, true},
		{1600 * time.Millisecond, 700 * time.Millisecond, false}, {1600 * time.Millisecond, 900 * time.Millisecond, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := &witness{}
			p, err := podsecurity.New(namespaces{}, slow{list{pod(), pod()}, test.listing}, podsecurity.Options{Warn: w.warn})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), test.left)
			defer cancel()
			err = p.Validate(ctx, admissiontest.Update(t, namespace("ns"), namespace("ns", "enforce", "baseline")))
			if err != nil || slices.Contains(w.warnings, cut) != test.cut {
				t.Errorf("%v left, %v for the list: %v %q", test.left, test.listing, err, w.warnings)
			}
		})
	}
}

func TestExemptions(t *testing.T) {
	o := podsecurity.Options{
		Defaults:   psaconfig.PodSecurityDefaults{Enforce: "baseline", Audit: "restricted", AuditVersion: "v1.20"},
		Exemptions: psaconfig.PodSecurityExemptions{Namespaces: []string{"free"}, Usernames: []string{"jane"}, RuntimeClasses: []string{"vm"}},
	}
	free := pod(hostNetwork)
	free.Namespace = "free"
	vm := "vm"
	isolated := pod(hostNetwork, func(p *corev1.Pod) { p.Spec.RuntimeClassName = &vm })
	for name, r := range map[string]*admission.Request{
		"namespace":    admissiontest.Create(t, free),
		"user":         admissiontest.Create(t, pod(hostNetwork), admissiontest.By("jane")),
		"runtimeClass": admissiontest.Create(t, isolated),
	} {
		p, w := plugin(t, o, nil, namespace("ns"), namespace("free"))
		admissiontest.Admits(t, p, r, r.Object)
		if len(w.notes) != 1 || w.notes["exempt"] != name {
			t.Errorf("%s: noted %q", name, w.notes)
		}
	}
	p, w := plugin(t, o, list{pod(hostNetwork)}, namespace("ns"))
	admissiontest.Refuses(t, p, admissiontest.Create(t, pod(hostNetwork)), pre+baseline)
	if w.notes["audit-violations"] == "" {
		t.Errorf("by default noted %q", w.notes)
	}
	const ignored = `namespace "free" is exempt from Pod Security, and the policy (enforce=restricted:latest, warn=baseline:v1.2) will be ignored`
	labelled := namespace("free", "enforce", "restricted", "warn", "baseline", "warn-version", "v1.2")
	for name, r := range map[string]*admission.Request{
		"create": admissiontest.Create(t, labelled), "update": admissiontest.Update(t, namespace("free"), labelled),
	} {
		p, w := plugin(t, o, list{pod(hostNetwork)})
		if r.Namespace != "free" {
			t.Fatalf("namespace %q", r.Namespace)
		}
		admissiontest.Admits(t, p, r, labelled)
		if !slices.Equal(w.warnings, []string{ignored}) {
			t.Errorf("%s: warned of %q", name, w.warnings)
		}
	}
	p, w = plugin(t, o, nil)
	admissiontest.Admits(t, p, admissiontest.Create(t, namespace("free")), namespace("free"))
	if len(w.warnings) > 0 {
		t.Errorf("without labels warned of %q", w.warnings)
	}
}

func TestConfiguration(t *testing.T) {
	_, err := podsecurity.New(namespaces{}, list{}, podsecurity.Options{
		Defaults:   psaconfig.PodSecurityDefaults{Enforce: "strict", WarnVersion: "1.2"},
		Exemptions: psaconfig.PodSecurityExemptions{Namespaces: []string{"A b"}, Usernames: []string{""}, RuntimeClasses: []string{"x", "x"}},
	})
	if !errors.Is(err, podsecurity.ErrConfiguration) {
		t.Fatal(err)
	}
	for _, want := range []string{`defaults.enforce: Invalid value: "strict"`, `defaults.warn-version: Invalid value: "1.2"`,
		`exemptions.namespaces[0]`, `exemptions.usernames[0]`, `exemptions.runtimeClasses[1]: Duplicate value: "x"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %s", err, want)
		}
	}
}

func TestContract(t *testing.T) {
	p, _ := plugin(t, podsecurity.Options{}, nil, namespace("ns", "enforce", "baseline"))
	admissiontest.TestPlugin(t, p, admissiontest.Create(t, pod()), admissiontest.Create(t, pod(hostNetwork)),
		admissiontest.Create(t, namespace("x", "enforce", "y")), admissiontest.Update(t, pod(), pod(hostNetwork)),
		admissiontest.Create(t, &corev1.ConfigMap{}))
	silent, err := podsecurity.New(namespaces{"ns": namespace("ns", "warn", "baseline")}, list{}, podsecurity.Options{})
	if err != nil {
		t.Fatal(err)
	}
	admissiontest.Admits(t, silent, admissiontest.Create(t, pod(hostNetwork)), pod(hostNetwork))
}

// BenchmarkNew is the cost for a cluster without labels: the checks are not built.
func BenchmarkNew(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := podsecurity.New(namespaces{}, list{}, podsecurity.Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

func TestLazy(t *testing.T) {
	if n := testing.AllocsPerRun(10, func() { _, _ = podsecurity.New(namespaces{}, list{}, podsecurity.Options{}) }); n > 100 {
		t.Errorf("making a plugin takes %v allocations: are the checks made at once?", n)
	}
}

func Example() {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "baseline"}}}
	plugin, err := podsecurity.New(namespaces{"shop": ns}, list{}, podsecurity.Options{}) // in a server, informers
	if err != nil {
		fmt.Println(err)
		return
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{HostPID: true}}
	r := &admission.Request{Operation: admission.Create, Namespace: "shop", Name: "spy", Object: pod}
	r.Resource.Resource = "pods"
	fmt.Println(plugin.Validate(context.Background(), r))
	// Output: pods "spy" is forbidden: violates PodSecurity "baseline:latest": host namespaces (hostPID=true)
}
