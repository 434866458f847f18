package direct_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	clientgo "k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz/alwaysallow"
	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/clienttest"
	"github.com/keelson-dev/keelson/client/rest"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/apps"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/registry/direct"
	"github.com/keelson-dev/keelson/registry/discovery"
	"github.com/keelson-dev/keelson/registry/policy"
	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/memory"
)

func kinds() []registry.Kind {
	all := core.Kinds(core.Options{})
	all = append(all, apps.Kinds()...)
	all = append(all, discovery.Kinds()...)
	return append(all, policy.Kinds()...)
}

// serve runs a registry of the kinds under test.
func serve(t *testing.T) *registry.Registry { return run(t, kinds()) }

// run runs a registry until the test ends; its generated identifiers are the same each time.
func run(t *testing.T, kinds []registry.Kind) *registry.Registry {
	t.Helper()
	return runOn(t, memory.New(memory.Options{}), kinds)
}

// runOn runs a registry on a store until the test ends.
func runOn(t *testing.T, store *memory.Store, kinds []registry.Kind) *registry.Registry {
	t.Helper()
	reg, err := registry.New(store, kinds, registry.Options{Identifiers: registry.Seeded(1)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- reg.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		_ = store.Close()
	})
	return reg
}

// overWire returns a client of a server of a registry.
func overWire(t *testing.T, reg *registry.Registry) client.Client {
	t.Helper()
	transport := apiserver.NewTransport(apiserver.New(reg, apiserver.Options{Authorizer: alwaysallow.New()}), nil)
	t.Cleanup(transport.Close)
	c, err := rest.New(&clientgo.Config{Host: "http://in.process", Transport: transport, QPS: -1, WarningHandler: clientgo.NoWarnings{}}, scheme.Scheme)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestDifferential: the same random requests, to a registry directly and to another one over the wire, get the
// same objects and the same errors.
func TestDifferential(t *testing.T) {
	seeds := uint64(20)
	if testing.Short() {
		seeds = 4
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			near, far := direct.New(serve(t), direct.Options{}), overWire(t, serve(t))
			g := &generator{rand.New(rand.NewPCG(seed, 7)), map[string]string{}}
			for n := range 400 {
				what, do := g.next()
				time.Sleep(time.Duration(g.IntN(3)) * 700 * time.Millisecond)
				got, gotErr := do(t.Context(), near)
				want, wantErr := do(t.Context(), far)
				if a, b := saidError(gotErr), saidError(wantErr); a != b {
					t.Fatalf("seed %d, request %d, %s: directly\n %s\nover the wire\n %s", seed, n, what, a, b)
				}
				if a, b := said(t, got), said(t, want); a != b {
					t.Fatalf("seed %d, request %d, %s: directly\n %s\nover the wire\n %s", seed, n, what, a, b)
				}
				g.remember(got)
			}
			if len(g.versions) < 5 {
				t.Errorf("seed %d: only %d objects were ever made", seed, len(g.versions))
			}
		})
	}
}

// TestPatchKeepsKind: a patch cannot change an object's kind.
func TestPatchKeepsKind(t *testing.T) {
	c := direct.New(serve(t), direct.Options{})
	at := client.Target{Resource: resource(corev1.SchemeGroupVersion, "configmaps"), Namespace: "a", Name: "one"}
	if _, err := c.Create(t.Context(), at, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, data := range []string{`{"kind":"Secret"}`, `{"apiVersion":"v2"}`} {
		if _, err := c.Patch(t.Context(), at, client.Patch{Type: types.MergePatchType, Data: []byte(data)}, metav1.PatchOptions{}); !apierrors.IsInvalid(err) {
			t.Errorf("%s: %v", data, err)
		}
	}
	apply := client.Patch{Type: types.ApplyPatchType, Data: []byte(`{}`)}
	if _, err := c.Patch(t.Context(), at, apply, metav1.PatchOptions{FieldManager: "m"}); !apierrors.IsUnsupportedMediaType(err) {
		t.Errorf("apply: %v", err)
	}
}

// TestCause: the error wraps the store's error, and looks to a client as it does over the wire.
func TestCause(t *testing.T) {
	store := memory.New(memory.Options{})
	burning := errors.New("disk on fire")
	reg, err := registry.New(failing{store, burning}, kinds(), registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- reg.Run(ctx) }()
	defer func() { stop(); <-done }()
	at := client.Target{Resource: resource(corev1.SchemeGroupVersion, "configmaps"), Namespace: "a"}
	_, err = direct.New(reg, direct.Options{}).Create(ctx, at, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one"}}, metav1.CreateOptions{})
	var told *apierrors.StatusError
	if !errors.Is(err, burning) || !errors.As(err, &told) || told.ErrStatus.Code != 500 || apierrors.ReasonForError(err) != metav1.StatusReasonUnknown {
		t.Errorf("%v", err)
	}
	stop()
	if _, err := direct.New(reg, direct.Options{}).Get(ctx, client.Target{Resource: at.Resource, Namespace: "a", Name: "one"}); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
}

// failing is a store in which every create fails.
type failing struct {
	storage.Store
	err error
}

func (f failing) Create(context.Context, string, []byte) (int64, error) { return 0, f.err }

// TestIdentity: kinds with rules that depend on the caller see the client's identity.
func TestIdentity(t *testing.T) {
	var seen []string
	k := core.Kinds(core.Options{})
	for i := range k {
		if k[i].Plural == "configmaps" {
			k[i].Rules.Guard = func(ctx context.Context, _, _ registry.Object) error {
				name := ""
				if id := authn.FromContext(ctx); id != nil {
					name = id.Name
				}
				seen = append(seen, name)
				return nil
			}
		}
	}
	reg := run(t, k)
	somebody := authn.NewContext(t.Context(), &authn.Identity{Name: "somebody"})
	for n, o := range []direct.Options{{}, {Identity: &authn.Identity{Name: "known"}}} {
		obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("m", n)}}
		at := client.Target{Resource: resource(corev1.SchemeGroupVersion, "configmaps"), Namespace: "a"}
		if _, err := direct.New(reg, o).Create(somebody, at, obj, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if fmt.Sprint(seen) != "[somebody known]" {
		t.Errorf("seen as %q", seen)
	}
}

// saidError returns everything that a client can see of an error.
func saidError(err error) string {
	if err == nil {
		return ""
	}
	var s *apierrors.StatusError
	if !errors.As(err, &s) {
		return "no status: " + err.Error()
	}
	told := s.ErrStatus
	told.TypeMeta = metav1.TypeMeta{}
	if d := told.Details; d != nil && len(d.Causes) == 1 && d.Causes[0].Field == "patch" {
		// The object is quoted as a whole, with its managed fields.
		quote := regexp.MustCompile(`Invalid value: ".*": `)
		told.Message, d.Causes[0].Message = quote.ReplaceAllString(told.Message, "..."), quote.ReplaceAllString(d.Causes[0].Message, "...")
	}
	data, _ := json.Marshal(told)
	return string(data)
}

// said returns an object without managed fields, which only the server maintains.
func said(t *testing.T, obj runtime.Object) string {
	t.Helper()
	if obj == nil {
		return ""
	}
	forget := func(o runtime.Object) error {
		if about, err := meta.Accessor(o); err == nil {
			about.SetManagedFields(nil)
		}
		return nil
	}
	var err error
	if meta.IsListType(obj) {
		err = meta.EachListItem(obj, forget)
	} else {
		err = forget(obj)
	}
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%T %s", obj, data)
}

// generator makes requests that often concern the same few objects.
type generator struct {
	*rand.Rand
	versions map[string]string // of objects, as last seen
}

type call func(ctx context.Context, c client.Client) (runtime.Object, error)

func pick[T any](g *generator, all ...T) T { return all[g.IntN(len(all))] }

func (g *generator) remember(obj runtime.Object) {
	if about, ok := obj.(metav1.Object); ok && about.GetName() != "" {
		g.versions[about.GetName()] = about.GetResourceVersion()
	}
}

func resource(gv schema.GroupVersion, name string) schema.GroupVersionResource {
	return gv.WithResource(name)
}

func (g *generator) target() client.Target {
	r := pick(g, resource(corev1.SchemeGroupVersion, "configmaps"), resource(corev1.SchemeGroupVersion, "pods"), resource(corev1.SchemeGroupVersion, "pods"),
		resource(appsv1.SchemeGroupVersion, "deployments"), resource(appsv1.SchemeGroupVersion, "replicasets"), resource(corev1.SchemeGroupVersion, "namespaces"),
		resource(corev1.SchemeGroupVersion, "nodes"), resource(policyv1.SchemeGroupVersion, "poddisruptionbudgets"), resource(discoveryv1.SchemeGroupVersion, "endpointslices"))
	if g.IntN(60) == 0 {
		r.Resource = "gadgets"
	}
	t := client.Target{Resource: r, Namespace: pick(g, "a", "a", "a", "b"), Name: pick(g, "one", "two", "three")}
	if r.Resource == "namespaces" || r.Resource == "nodes" {
		t.Namespace = ""
	}
	if g.IntN(40) == 0 {
		t.Namespace = pick(g, "", "c")
	}
	return t
}

func (g *generator) meta(t client.Target) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Name: t.Name, Namespace: t.Namespace, Labels: map[string]string{"app": pick(g, "x", "y")}}
	switch g.IntN(14) {
	case 0:
		m.Name, m.GenerateName = "", "made-"
	case 1:
		m.Namespace = pick(g, "", "other")
	case 2:
		m.Name = pick(g, "", "Bad_Name", "other")
	case 3:
		m.Finalizers = []string{pick(g, "example.com/keep", "bad")}
	case 4:
		m.ResourceVersion = pick(g, "1", "0", "x", "7")
	case 5, 6, 7:
		m.ResourceVersion = g.versions[t.Name]
	case 8:
		m.UID = "other"
	case 9:
		m.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "o", UID: types.UID(pick(g, "u", ""))}}
	}
	return m
}

func (g *generator) podSpec() corev1.PodSpec {
	s := corev1.PodSpec{NodeName: pick(g, "", "", "n"), Containers: []corev1.Container{{Name: pick(g, "c", "c", "c", ""), Image: pick(g, "i", "j")}}}
	if g.IntN(5) == 0 {
		s.TerminationGracePeriodSeconds = new(int64(g.IntN(3)))
	}
	return s
}

// object makes an object of the target's kind.
func (g *generator) object(t client.Target) runtime.Object {
	m := g.meta(t)
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": pick(g, "x", "x", "x", "y")}}, Spec: g.podSpec()}
	template.Spec.NodeName, template.Spec.TerminationGracePeriodSeconds = "", nil
	replicas := new(int32(g.IntN(4)) - int32(g.IntN(20)/19))
	switch t.Resource.Resource {
	case "pods":
		return &corev1.Pod{ObjectMeta: m, Spec: g.podSpec(), Status: corev1.PodStatus{Phase: pick(g, corev1.PodRunning, corev1.PodSucceeded, "")}}
	case "deployments":
		return &appsv1.Deployment{ObjectMeta: m, Spec: appsv1.DeploymentSpec{Replicas: replicas, Selector: selector, Template: template},
			Status: appsv1.DeploymentStatus{Replicas: int32(g.IntN(3)), ObservedGeneration: int64(g.IntN(3))}}
	case "replicasets":
		return &appsv1.ReplicaSet{ObjectMeta: m, Spec: appsv1.ReplicaSetSpec{Replicas: replicas, Selector: selector, Template: template},
			Status: appsv1.ReplicaSetStatus{Replicas: int32(g.IntN(3))}}
	case "namespaces":
		return &corev1.Namespace{ObjectMeta: m}
	case "nodes":
		return &corev1.Node{ObjectMeta: m, Spec: corev1.NodeSpec{Unschedulable: g.IntN(2) == 0}}
	case "poddisruptionbudgets":
		return &policyv1.PodDisruptionBudget{ObjectMeta: m, Spec: policyv1.PodDisruptionBudgetSpec{Selector: selector}}
	case "endpointslices":
		return &discoveryv1.EndpointSlice{ObjectMeta: m, AddressType: pick(g, discoveryv1.AddressTypeIPv4, "")}
	}
	return &corev1.ConfigMap{ObjectMeta: m, Data: map[string]string{"k": pick(g, "1", "2"), pick(g, "a", "a", "?"): ""}}
}

func (g *generator) dryRun() []string {
	return pick(g, nil, nil, nil, nil, []string{"All"}, []string{"Some"})
}

// next returns a request and its description.
func (g *generator) next() (string, call) {
	t := g.target()
	switch g.IntN(12) {
	case 0, 1, 2:
		obj, o := g.object(t), metav1.CreateOptions{DryRun: g.dryRun()}
		return fmt.Sprintf("create %v %+v %v", t, obj, o), func(ctx context.Context, c client.Client) (runtime.Object, error) {
			return c.Create(ctx, t, obj, o)
		}
	case 3:
		t.Subresource = pick(g, "", "", "status", "scale", "finalize", "eviction", "nothing")
		return fmt.Sprintf("get %v", t), func(ctx context.Context, c client.Client) (runtime.Object, error) { return c.Get(ctx, t) }
	case 4:
		return g.list(t)
	case 5, 6:
		obj, o := g.object(t), metav1.UpdateOptions{DryRun: g.dryRun()}
		t.Subresource = pick(g, "", "", "status", "finalize", "nothing", "scale")
		if t.Subresource == "scale" {
			obj = &autoscalingv1.Scale{ObjectMeta: g.meta(t), Spec: autoscalingv1.ScaleSpec{Replicas: int32(g.IntN(5)) - 1}}
		}
		return fmt.Sprintf("update %v %+v %v", t, obj, o), func(ctx context.Context, c client.Client) (runtime.Object, error) {
			return c.Update(ctx, t, obj, o)
		}
	case 7, 8:
		return g.patch(t)
	case 9, 10:
		return g.remove(t)
	}
	return g.post(t)
}

func (g *generator) list(t client.Target) (string, call) {
	t.Name = ""
	if g.IntN(3) == 0 && t.Resource.Resource != "nodes" && t.Resource.Resource != "namespaces" {
		t.Namespace = ""
	}
	o := metav1.ListOptions{
		LabelSelector: pick(g, "", "", "app=x", "app in (x,y)", "?!", "!app"),
		FieldSelector: pick(g, "", "", "metadata.name=one", "spec.nodeName=n", "status.phase!=Running", "spec.unschedulable=true", "=", "data.k=1"),
		Limit:         pick[int64](g, 0, 0, 1, 2, -1), ResourceVersion: pick(g, "", "", "", "0", "1", "x", "3"),
		ResourceVersionMatch: pick(g, "", "", "", metav1.ResourceVersionMatchExact, metav1.ResourceVersionMatchNotOlderThan, "Other"),
	}
	return fmt.Sprintf("list %v %+v", t, o), func(ctx context.Context, c client.Client) (runtime.Object, error) {
		all, err := c.List(ctx, t, o)
		if err != nil {
			return nil, err
		}
		// Its pages, too.
		for page := all; ; {
			about, err := meta.ListAccessor(page)
			if err != nil || about.GetContinue() == "" {
				return all, err
			}
			next := o
			next.Continue, next.ResourceVersion, next.ResourceVersionMatch = about.GetContinue(), "", ""
			if page, err = c.List(ctx, t, next); err != nil {
				return nil, err
			}
			all = page
		}
	}
}

func (g *generator) patch(t client.Target) (string, call) {
	forms := map[types.PatchType][]string{
		types.MergePatchType: {
			`{"metadata":{"labels":{"app":"z","b":null}}}`, `{"data":{"k":"3"}}`, `{"spec":{"replicas":2}}`, `{"spec":{"replicas":"many"}}`, `{"spec":null}`,
			`{"metadata":{"resourceVersion":"1"}}`, `{"metadata":{"uid":"other"}}`, `{"unknown":1}`, `[]`, `{`, `null`, `{"metadata":{"name":"other"}}`,
			`{"status":{"phase":"Failed"}}`, `{"metadata":{"finalizers":null}}`,
		},
		types.StrategicMergePatchType: {
			`{"metadata":{"labels":{"app":"z","b":null}}}`, `{"data":{"k":"3"}}`, `{"spec":{"containers":[{"name":"c","image":"k"}]}}`, `{"spec":{"containers":[{"name":"c","$patch":"delete"}]}}`,
			`{"metadata":{"ownerReferences":[{"uid":"u","name":"o","kind":"K","apiVersion":"v1","controller":true}]}}`, `{"metadata":{"ownerReferences":[{"$patch":"delete","uid":"u"}]}}`,
			`{"metadata":{"uid":"other"}}`, `{"unknown":1}`, `{"spec":{"containers":[{"image":"k"}]}}`, `{"spec":{"containers":7}}`, `[]`, `{`,
			`{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`, `{"metadata":{"finalizers":["example.com/keep"]}}`,
			`{"metadata":{"$deleteFromPrimitiveList/finalizers":["example.com/keep"]}}`,
		},
		types.JSONPatchType: {
			`[{"op":"add","path":"/metadata/labels/b","value":"1"}]`, `[{"op":"remove","path":"/metadata/labels/b"}]`, `[{"op":"test","path":"/metadata/name","value":"two"}]`,
			`[{"op":"replace","path":"/spec/replicas","value":1}]`, `[{"op":"nothing","path":"/"}]`, `{}`, `[{"op":"remove","path":"/metadata"}]`, `[{"op":"add","path":"/metadata/resourceVersion","value":"1"}]`,
			`[{"op":"add","path":"/x","value":1,"more":2}]`, `[]`,
		},
		"application/unknown": {`{}`},
	}
	form := pick(g, types.MergePatchType, types.StrategicMergePatchType, types.StrategicMergePatchType, types.JSONPatchType)
	if g.IntN(30) == 0 {
		form = "application/unknown"
	}
	p := client.Patch{Type: form, Data: []byte(pick(g, forms[form]...))}
	t.Subresource = pick(g, "", "", "", "status", "scale", "finalize", "nothing")
	if t.Subresource == "scale" && strings.Contains(string(p.Data), "metadata") {
		// Patching a Scale's metadata changes only managed fields, which only the server maintains.
		t.Subresource = ""
	}
	o := metav1.PatchOptions{DryRun: g.dryRun(), FieldValidation: pick(g, "", "", metav1.FieldValidationStrict, metav1.FieldValidationIgnore, "Some")}
	return fmt.Sprintf("patch %v %s %s %+v", t, p.Type, p.Data, o), func(ctx context.Context, c client.Client) (runtime.Object, error) {
		return c.Patch(ctx, t, p, o)
	}
}

func (g *generator) remove(t client.Target) (string, call) {
	o := metav1.DeleteOptions{DryRun: g.dryRun()}
	switch g.IntN(8) {
	case 0, 1:
		o.GracePeriodSeconds = new(pick[int64](g, 0, 0, 1, 5, -1))
	case 2:
		o.PropagationPolicy = new(pick(g, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan, metav1.DeletePropagationBackground, "Other"))
	case 3:
		o.Preconditions = &metav1.Preconditions{UID: new(types.UID("other"))}
	case 4:
		o.Preconditions = &metav1.Preconditions{ResourceVersion: new(pick(g, g.versions[t.Name], "1"))}
	}
	if g.IntN(6) == 0 {
		t.Name = ""
	}
	return fmt.Sprintf("delete %v %+v", t, o), func(ctx context.Context, c client.Client) (runtime.Object, error) {
		return nil, c.Delete(ctx, t, o)
	}
}

// post makes a request to an action.
func (g *generator) post(t client.Target) (string, call) {
	var body runtime.Object
	switch t.Subresource = pick(g, "binding", "eviction", "nothing", "status"); t.Subresource {
	case "binding":
		body = &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: t.Name, Namespace: pick(g, "", t.Namespace)}, Target: corev1.ObjectReference{Kind: "Node", Name: pick(g, "n", "m", "")}}
	case "eviction":
		body = &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pick(g, t.Name, "other"), Namespace: t.Namespace}}
	default:
		body = g.object(t)
	}
	o := metav1.CreateOptions{DryRun: g.dryRun()}
	return fmt.Sprintf("post %v %+v %v", t, body, o), func(ctx context.Context, c client.Client) (runtime.Object, error) {
		out, err := c.Create(ctx, t, body, o)
		if apierrors.IsTooManyRequests(err) && strings.Contains(t.Subresource, "eviction") {
			return nil, errors.New("too many requests") // the client over the wire retries it ten times
		}
		return out, err
	}
}

// Both ways to a registry keep the contract of a client.
func TestClients(t *testing.T) {
	t.Run("direct", func(t *testing.T) {
		clienttest.TestClient(t, func(t *testing.T) client.Client { return direct.New(serve(t), direct.Options{}) })
	})
	t.Run("wire", func(t *testing.T) {
		clienttest.TestClient(t, func(t *testing.T) client.Client { return overWire(t, serve(t)) })
	})
}
