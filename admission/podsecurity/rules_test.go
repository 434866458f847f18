package podsecurity_test

import (
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	psaconfig "k8s.io/pod-security-admission/admission/api"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/admissiontest"
	"github.com/keelson-dev/keelson/admission/podsecurity"
)

// TestUndecodable: an object of another type is reported to the client and in the audit log.
func TestUndecodable(t *testing.T) {
	object := func(r *admission.Request) { r.Object = &corev1.Node{} }
	old := func(r *admission.Request) { r.OldObject = &corev1.Node{} }
	for want, r := range map[string]*admission.Request{
		"failed to decode pod":            admissiontest.Create(t, pod(), object),
		"failed to decode old pod":        admissiontest.Update(t, pod(), pod(), old),
		"failed to decode namespace":      admissiontest.Create(t, namespace("ns"), object),
		"failed to decode  old namespace": admissiontest.Update(t, namespace("ns"), namespace("ns"), old),
	} {
		p, w := plugin(t, podsecurity.Options{}, nil, namespace("ns", "enforce", "baseline"))
		admissiontest.Refuses(t, p, r, want)
		if len(w.notes) != 1 || w.notes["error"] != want {
			t.Errorf("%s: noted %q", want, w.notes)
		}
	}
}

// TestPrivilegedIsNotChecked: where everything is allowed, pods are not checked, unless the labels are
// invalid.
func TestPrivilegedIsNotChecked(t *testing.T) {
	strange := admissiontest.Create(t, pod(), func(r *admission.Request) { r.Object = &corev1.Node{} })
	p, w := plugin(t, podsecurity.Options{}, nil, namespace("ns", "enforce", "privileged"))
	admissiontest.Admits(t, p, strange, strange.Object)
	if len(w.notes) != 1 || w.notes["enforce-policy"] != "privileged:latest" {
		t.Errorf("noted %q", w.notes)
	}
	p, w = plugin(t, podsecurity.Options{}, nil, namespace("ns", "enforce", "privileged", "enforce-version", "new"))
	admissiontest.Admits(t, p, admissiontest.Create(t, pod(hostNetwork)), pod(hostNetwork))
	if w.notes["error"] == "" {
		t.Errorf("of a bad version noted %q", w.notes)
	}
}

// TestMissingNamespace: a pod needs its namespace, while a workload merely goes unchecked; the audit log records
// both.
func TestMissingNamespace(t *testing.T) {
	p, w := plugin(t, podsecurity.Options{}, nil)
	admissiontest.Refuses(t, p, admissiontest.Create(t, pod()), `Internal error occurred: failed to lookup namespace "ns"`)
	if want := `Internal error occurred: failed to lookup namespace "ns": namespace "ns" not found`; w.notes["error"] != want {
		t.Errorf("noted %q", w.notes)
	}
	p, w = plugin(t, podsecurity.Options{}, nil)
	set := workload(hostNetwork)
	admissiontest.Admits(t, p, admissiontest.Create(t, set), set)
	if want := `failed to lookup namespace "ns": namespace "ns" not found`; w.notes["error"] != want || len(w.warnings) != 0 {
		t.Errorf("noted %q, warned of %q", w.notes, w.warnings)
	}
}

func workload(changes ...func(*corev1.Pod)) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "w"},
		Spec:       appsv1.ReplicaSetSpec{Template: corev1.PodTemplateSpec{Spec: pod(changes...).Spec}},
	}
}

// TestCheckedWorkloads: a workload is checked for warnings and for the audit log independently, if it is complete
// and not exempt.
func TestCheckedWorkloads(t *testing.T) {
	const would = `would violate PodSecurity "baseline:latest": host namespaces (hostNetwork=true)`
	const bad = `Failed to parse policy: metadata.labels[pod-security.kubernetes.io/enforce-version]: Invalid value: "new": must be "latest" or "v1.x"`
	exempt := podsecurity.Options{Exemptions: psaconfig.PodSecurityExemptions{Namespaces: []string{"ns"}, RuntimeClasses: []string{"vm"}}}
	runtime := podsecurity.Options{Exemptions: psaconfig.PodSecurityExemptions{RuntimeClasses: []string{"vm"}}}
	class := func(name string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.RuntimeClassName = &name }
	}
	for name, tt := range map[string]struct {
		options     podsecurity.Options
		labels      []string
		subresource string
		change      func(*corev1.Pod)
		warnings    []string
		notes       map[string]string
	}{
		"warned":             {labels: []string{"warn", "baseline"}, warnings: []string{would}, notes: map[string]string{}},
		"noted":              {labels: []string{"warn", "privileged", "audit", "baseline"}, notes: map[string]string{"audit-violations": would}},
		"a part":             {labels: []string{"warn", "baseline"}, subresource: "status", notes: map[string]string{}},
		"exempt":             {options: exempt, labels: []string{"warn", "baseline"}, notes: map[string]string{"exempt": "namespace"}},
		"an exempt runtime":  {options: runtime, labels: []string{"warn", "baseline"}, change: class("vm"), notes: map[string]string{"exempt": "runtimeClass"}},
		"another runtime":    {options: runtime, labels: []string{"warn", "baseline"}, change: class("gpu"), warnings: []string{would}, notes: map[string]string{}},
		"nothing":            {notes: map[string]string{}},
		"a label gone wrong": {labels: []string{"enforce-version", "new"}, notes: map[string]string{"error": bad}},
	} {
		p, w := plugin(t, tt.options, nil, namespace("ns", tt.labels...))
		changes := []func(*corev1.Pod){hostNetwork}
		if tt.change != nil {
			changes = append(changes, tt.change)
		}
		set := workload(changes...)
		admissiontest.Admits(t, p, admissiontest.Create(t, set, admissiontest.Subresource(tt.subresource)), set)
		if w.notes == nil {
			w.notes = map[string]string{}
		}
		if !slices.Equal(w.warnings, tt.warnings) || fmt.Sprint(w.notes) != fmt.Sprint(tt.notes) {
			t.Errorf("%s: warned of %q, noted %q", name, w.warnings, w.notes)
		}
	}
	// Without warnings and audit, nothing is checked.
	p, w := plugin(t, podsecurity.Options{}, nil, namespace("ns", "enforce", "baseline", "warn", "privileged", "audit", "privileged"))
	strange := admissiontest.Create(t, workload(), func(r *admission.Request) { r.Object = &corev1.Node{} })
	admissiontest.Admits(t, p, strange, strange.Object)
	if len(w.notes) != 0 {
		t.Errorf("noted %q", w.notes)
	}
}

// TestNamespaceWarnings: labels of an exempt namespace cause a warning if they would have an effect
// elsewhere.
func TestNamespaceWarnings(t *testing.T) {
	o := podsecurity.Options{
		Defaults:   psaconfig.PodSecurityDefaults{Enforce: "baseline", Warn: "restricted"},
		Exemptions: psaconfig.PodSecurityExemptions{Namespaces: []string{"free"}},
	}
	ignored := func(modes string) []string {
		return []string{`namespace "free" is exempt from Pod Security, and the policy (` + modes + `) will be ignored`}
	}
	for name, tt := range map[string]struct {
		ns   *corev1.Namespace
		want []string
	}{
		"not exempt":                {namespace("bound", "enforce", "restricted"), nil},
		"no labels":                 {namespace("free"), nil},
		"as by default":             {namespace("free", "enforce", "baseline"), nil},
		"all privileged":            {namespace("free", "enforce", "privileged", "warn", "privileged"), nil},
		"privileged but one":        {namespace("free", "enforce", "privileged", "warn", "baseline"), ignored("warn=baseline:latest")},
		"a version":                 {namespace("free", "warn-version", "v1.2"), ignored("warn=restricted:v1.2")},
		"a version without a level": {namespace("free", "audit-version", "v1.2", "enforce", "restricted"), ignored("enforce=restricted:latest")},
		"all":                       {namespace("free", "enforce", "restricted", "audit", "baseline", "warn", "baseline"), ignored("enforce=restricted:latest, audit=baseline:latest, warn=baseline:latest")},
	} {
		p, w := plugin(t, o, nil)
		admissiontest.Admits(t, p, admissiontest.Create(t, tt.ns), tt.ns)
		if !slices.Equal(w.warnings, tt.want) {
			t.Errorf("%s: warned of %q, want %q", name, w.warnings, tt.want)
		}
	}
	// Labels may be corrected, and pods that comply with a new level cause no warning.
	p, w := plugin(t, podsecurity.Options{}, list{pod()})
	good := namespace("ns", "enforce", "baseline")
	admissiontest.Admits(t, p, admissiontest.Update(t, namespace("ns", "warn", "strict"), good), good)
	if len(w.warnings) > 0 {
		t.Errorf("warned of %q", w.warnings)
	}
}
