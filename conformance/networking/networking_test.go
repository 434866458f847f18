package networking

import (
	"context"
	"encoding/json"
	"flag"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/networking/install" // the types that are converted
	"k8s.io/kubernetes/pkg/registry/networking/ingress"
	"k8s.io/kubernetes/pkg/registry/networking/ingressclass"
	"k8s.io/kubernetes/pkg/registry/networking/ipaddress"
	"k8s.io/kubernetes/pkg/registry/networking/networkpolicy"
	"k8s.io/kubernetes/pkg/registry/networking/servicecidr"
)

var (
	record = flag.Bool("record", false, "write the cases that keelson's own test holds")
	cases  = flag.Int("cases", 2000, "how many random cases of every kind")
	seed   = flag.Uint64("seed", 1, "of the random cases")
)

const (
	kept  = 40 // cases of every kind in a record
	root  = "../.."
	tests = "registry/networking"
	file  = tests + "/testdata/upstream.json"
)

// Case is a write and upstream's result.
type Case struct {
	Resource string          `json:"resource"`
	View     string          `json:"view,omitempty"`
	Old      json.RawMessage `json:"old,omitempty"` // of an update
	Object   json.RawMessage `json:"object"`
	Errors   []string        `json:"errors"` // sorted; without those of metadata
	Result   json.RawMessage `json:"result"`
}

// kind is a valid object and its strategy.
type kind struct {
	good   runtime.Object
	judge  rest.RESTCreateUpdateStrategy
	status rest.RESTUpdateStrategy
}

func kinds() map[string]kind {
	prefix := networkingv1.PathTypePrefix
	backend := networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "web", Port: networkingv1.ServiceBackendPort{Number: 80}}}
	port := intstr.FromInt32(80)
	meta := metav1.ObjectMeta{Name: "a", Namespace: "ns"}
	global := metav1.ObjectMeta{Name: "a"}
	return map[string]kind{
		"ingresses": {&networkingv1.Ingress{ObjectMeta: meta, Spec: networkingv1.IngressSpec{
			IngressClassName: new("c"), DefaultBackend: &backend, TLS: []networkingv1.IngressTLS{{Hosts: []string{"a.b", "*.c"}, SecretName: "s"}},
			Rules: []networkingv1.IngressRule{{Host: "a.b", IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
				Paths: []networkingv1.HTTPIngressPath{{Path: "/a", PathType: &prefix, Backend: backend}},
			}}}},
		}}, ingress.Strategy, ingress.StatusStrategy},
		"ingressclasses": {&networkingv1.IngressClass{ObjectMeta: global, Spec: networkingv1.IngressClassSpec{
			Controller: "example.com/c", Parameters: &networkingv1.IngressClassParametersReference{APIGroup: new("example.com"), Kind: "K", Name: "n"},
		}}, ingressclass.Strategy, nil},
		"networkpolicies": {&networkingv1.NetworkPolicy{ObjectMeta: meta, Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
			Ingress: []networkingv1.NetworkPolicyIngressRule{{
				Ports: []networkingv1.NetworkPolicyPort{{Port: &port, EndPort: new(int32(90))}},
				From:  []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{}}, {IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.0/8", Except: []string{"10.1.0.0/16"}}}},
			}},
			Egress: []networkingv1.NetworkPolicyEgressRule{{To: []networkingv1.NetworkPolicyPeer{{NamespaceSelector: &metav1.LabelSelector{}}}}},
		}}, networkpolicy.Strategy, nil},
		"ipaddresses": {&networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: "10.0.0.1"}, Spec: networkingv1.IPAddressSpec{
			ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: "ns", Name: "a"},
		}}, ipaddress.Strategy, nil},
		"servicecidrs": {&networkingv1.ServiceCIDR{ObjectMeta: global, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.0.0.0/24", "fd00::/112"}}},
			servicecidr.Strategy, servicecidr.StatusStrategy},
	}
}

// TestNetworking runs upstream's strategies on random objects and keelson's test to compare.
func TestNetworking(t *testing.T) {
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	n, to := *cases, filepath.Join(t.TempDir(), "upstream.json")
	if *record {
		n, to = kept, filepath.Join(root, file)
	}
	out, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	all := kinds()
	for _, resource := range []string{"ingresses", "ingressclasses", "networkpolicies", "ipaddresses", "servicecidrs"} {
		r := rand.New(rand.NewPCG(*seed, uint64(len(resource))))
		for made := 0; made < n; {
			if c, ok := makeCase(t, r, resource, all[resource]); ok {
				made++
				if err := encoder.Encode(c); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	if to, err = filepath.Abs(to); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), "go", "test", "./"+tests, "-count=1", "-run", "^TestAsUpstream$", "-upstream", to)
	command.Dir = root
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("keelson judges otherwise: %v\n%s", err, out)
	}
}

// makeCase returns false for objects that cannot be decoded, and for stored objects that could not exist.
func makeCase(t *testing.T, r *rand.Rand, resource string, k kind) (Case, bool) {
	t.Helper()
	c := Case{Resource: resource}
	obj := mutated(r, k.good, r.IntN(4))
	ctx := func() context.Context {
		return request.WithRequestInfo(request.WithNamespace(context.Background(), "ns"), &request.RequestInfo{
			APIGroup: networkingv1.GroupName, APIVersion: "v1", Resource: resource, Subresource: c.View,
		})
	}
	var errs field.ErrorList
	in := internal(obj)
	if in == nil {
		return c, false
	}
	if r.IntN(2) == 0 {
		c.Object = encode(t, obj)
		k.judge.PrepareForCreate(ctx(), in)
		errs = k.judge.Validate(ctx(), in)
		return c.done(t, in, errs), true
	}
	old := in
	k.judge.PrepareForCreate(ctx(), old)
	// What is stored was once accepted, but may no longer be.
	if bad := k.judge.Validate(ctx(), old.DeepCopyObject()); len(bad) > 0 && r.IntN(10) > 0 {
		return c, false
	}
	stored := external(t, old)
	c.Old = encode(t, stored)
	next := mutated(r, stored, 1+r.IntN(3))
	if in = internal(next); in == nil {
		return c, false
	}
	c.Object = encode(t, next)
	judge := rest.RESTUpdateStrategy(k.judge)
	if k.status != nil && r.IntN(3) == 0 {
		c.View, judge = "status", k.status
	}
	judge.PrepareForUpdate(ctx(), in, old)
	errs = judge.ValidateUpdate(ctx(), in, old)
	return c.done(t, in, errs), true
}

func (c Case) done(t *testing.T, in runtime.Object, errs field.ErrorList) Case {
	t.Helper()
	c.Result, c.Errors = encode(t, external(t, in)), []string{}
	// Release 1.37 validates an address by declarative rules, which for a parent only report that it must not change;
	// 1.36 goes on to its fields.
	immutable := slices.ContainsFunc(errs, func(err *field.Error) bool {
		return c.Resource == "ipaddresses" && err.Field == "spec.parentRef" && strings.HasSuffix(err.Detail, "field is immutable")
	})
	for _, err := range errs {
		if immutable && err.Type == field.ErrorTypeRequired && strings.HasPrefix(err.Field, "spec.parentRef.") {
			continue
		}
		if text := err.Error(); !strings.HasPrefix(err.Field, "metadata") && !slices.Contains(c.Errors, text) {
			c.Errors = append(c.Errors, text)
		}
	}
	slices.Sort(c.Errors)
	return c
}

func internal(obj runtime.Object) runtime.Object {
	obj = obj.DeepCopyObject()
	legacyscheme.Scheme.Default(obj)
	in, err := legacyscheme.Scheme.ConvertToVersion(obj, runtime.InternalGroupVersioner)
	if err != nil {
		return nil
	}
	return in
}

func external(t *testing.T, in runtime.Object) runtime.Object {
	t.Helper()
	out, err := legacyscheme.Scheme.ConvertToVersion(in.DeepCopyObject(), networkingv1.SchemeGroupVersion)
	if err != nil {
		t.Fatal(err)
	}
	out.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return out
}

func encode(t *testing.T, obj runtime.Object) json.RawMessage {
	t.Helper()
	data, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// mutated returns a copy, as decoded from JSON, with some changes.
func mutated(r *rand.Rand, obj runtime.Object, times int) runtime.Object {
	obj = obj.DeepCopyObject()
	for range times {
		v := reflect.ValueOf(obj).Elem()
		change(r, v.FieldByName("Spec"))
		if status := v.FieldByName("Status"); status.IsValid() && r.IntN(4) == 0 {
			change(r, status)
		}
		if in, ok := obj.(*networkingv1.Ingress); ok && r.IntN(6) == 0 {
			in.Annotations = map[string]string{"kubernetes.io/ingress.class": pick(r, "c", "d")}
		}
	}
	data, err := json.Marshal(obj)
	if err != nil {
		panic(err)
	}
	read := reflect.New(reflect.TypeOf(obj).Elem()).Interface().(runtime.Object)
	if err := json.Unmarshal(data, read); err != nil {
		panic(err)
	}
	return read
}

// word returns a string that some rule accepts or rejects specially.
func word(r *rand.Rand) string {
	return pick(r, "", "a", "A", "a.b", "*.a.b", "a.*", "*", "a/b", "example.com/x", "example.com/"+strings.Repeat("x", 250), "-", "a b", "..", "%",
		strings.Repeat("x", 64), strings.Repeat("x", 300), "10.0.0.1", "010.0.0.1", "::1", "fd00::1", "::ffff:1.2.3.4",
		"10.0.0.0/8", "10.0.0.0/16", "10.1.0.0/16", "10.0.0.1/8", "fd00::/64", "fd00::/112", "10.0.0.0/33", "::ffff:1.2.3.0/120",
		"/", "/a", "/a/", "//", "/./", "/..", "/a/%2f", "Exact", "Prefix", "ImplementationSpecific", "Ingress", "Egress",
		"TCP", "UDP", "SCTP", "Cluster", "Namespace", "In", "NotIn", "Exists", "http", "Ready", "True")
}

// change changes something in v.
func change(r *rand.Rand, v reflect.Value) {
	switch x := v.Addr().Interface().(type) {
	case *intstr.IntOrString:
		*x = pick(r, intstr.FromInt32(pick[int32](r, -1, 0, 80, 65536)), intstr.FromString(word(r)))
		return
	case *metav1.Time:
		*x = metav1.Unix(1e9, 0)
		return
	case *corev1.Protocol:
		*x = corev1.Protocol(pick(r, "TCP", "UDP", "SCTP", "", "ICMP"))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		change(r, v.Field(r.IntN(v.NumField())))
	case reflect.String:
		v.SetString(word(r))
	case reflect.Int32, reflect.Int64:
		v.SetInt(pick[int64](r, -1, 0, 1, 80, 65535, 65536))
	case reflect.Pointer:
		switch {
		case v.IsNil():
			v.Set(reflect.New(v.Type().Elem()))
			change(r, v.Elem())
		case r.IntN(5) == 0:
			v.SetZero()
		default:
			change(r, v.Elem())
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf(word(r)), reflect.ValueOf(word(r)))
	case reflect.Slice:
		n := v.Len()
		switch how := r.IntN(5); {
		case how == 0 && n > 0:
			v.SetZero()
		case how == 1 && n > 0: // one twice
			v.Set(reflect.Append(v, v.Index(r.IntN(n))))
		case how == 2 || n == 0: // one more
			e := reflect.New(v.Type().Elem()).Elem()
			for range 1 + r.IntN(3) {
				change(r, e)
			}
			v.Set(reflect.Append(v, e))
		default:
			change(r, v.Index(r.IntN(n)))
		}
	}
}
