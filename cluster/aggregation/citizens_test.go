package aggregation_test

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cluster/aggregation"
	"github.com/keelson-dev/keelson/component/controllermanager"
	"github.com/keelson-dev/keelson/component/remote"
)

// pair is a cluster one of whose groups is served by a cluster without controllers behind it.
type pair struct {
	*api
	cluster *cluster.Cluster
	behind  *api
	// down makes the server behind fail, mute makes it fail for everything but discovery.
	down, mute atomic.Bool
}

// startPair starts the two, without the group if it is not registered at once.
func startPair(t *testing.T, o cluster.Options) *pair {
	t.Helper()
	p := &pair{}
	behind := start(t, cluster.Options{Extensions: []cluster.Extension{custom()}, Components: []cluster.Component{}})
	p.behind = clients(t, behind.Config())
	p.behind.established()
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.down.Load() || p.mute.Load() && strings.Contains(r.URL.Path, "/backups") {
			http.Error(w, "down", http.StatusInternalServerError)
			return
		}
		behind.Handler().ServeHTTP(w, r)
	})
	o.Extensions = append(o.Extensions, aggregation.Extension(aggregation.Options{
		Handlers: map[types.NamespacedName]http.Handler{{Namespace: "default", Name: "api"}: handler},
	}))
	p.cluster = start(t, o)
	p.api = clients(t, p.cluster.Config())
	p.service(0)
	for _, a := range []*api{p.api, p.behind} {
		if _, err := a.cs.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// register lets the group be served, and waits until everybody knows.
func (p *pair) register() {
	p.t.Helper()
	p.create(p.any.Resource(apiServices), apiService(nil))
	p.condition("v1.example.com", "True Passed: all checks passed")
	p.wait()
}

// wait lets pass all that is done with delay, such as the removal of usage that nothing accounts for.
func (*pair) wait() {
	time.Sleep(20 * time.Minute)
	synctest.Wait()
}

var configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")

// owned creates an object in the namespace shop.
func (p *pair) owned(in schema.GroupVersionResource, kind, name string, owners ...*unstructured.Unstructured) *unstructured.Unstructured {
	p.t.Helper()
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(in.GroupVersion().WithKind(kind))
	u.SetName(name)
	var refs []metav1.OwnerReference
	for _, o := range owners {
		refs = append(refs, metav1.OwnerReference{APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Name: o.GetName(), UID: o.GetUID()})
	}
	u.SetOwnerReferences(refs)
	made, err := p.any.Resource(in).Namespace("shop").Create(p.t.Context(), u, metav1.CreateOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	return made
}

func (p *pair) delete(in schema.GroupVersionResource, name string, policy metav1.DeletionPropagation) {
	p.t.Helper()
	if err := p.any.Resource(in).Namespace("shop").Delete(p.t.Context(), name, metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
		p.t.Fatal(err)
	}
}

// there fails unless the objects, each RESOURCE/NAME, exist, or do not.
func (p *pair) there(want bool, objects ...string) {
	p.t.Helper()
	for _, o := range objects {
		in, name, _ := strings.Cut(o, "/")
		gvr := configMaps
		if in == "backups" {
			gvr = backups
		}
		_, err := p.any.Resource(gvr).Namespace("shop").Get(p.t.Context(), name, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) || want != (err == nil) {
			p.t.Errorf("%s: %s: %v, want it: %t", time.Now(), o, err, want)
		}
	}
}

// used returns the used count of a quota for backups.
func (p *pair) used() string {
	p.t.Helper()
	q, err := p.cs.CoreV1().ResourceQuotas("shop").Get(p.t.Context(), "few", metav1.GetOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	n, ok := q.Status.Used["count/backups.example.com"]
	if !ok {
		return "unknown"
	}
	return n.String()
}

func (p *pair) quota() {
	p.t.Helper()
	_, err := p.cs.CoreV1().ResourceQuotas("shop").Create(p.t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "few"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/backups.example.com": resource.MustParse("5")}},
	}, metav1.CreateOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
}

// discoveryFailure returns what the namespace says about discovery.
func (p *pair) discoveryFailure() string {
	p.t.Helper()
	ns, err := p.cs.CoreV1().Namespaces().Get(p.t.Context(), "shop", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "gone"
	}
	if err != nil {
		p.t.Fatal(err)
	}
	for _, c := range ns.Status.Conditions {
		if c.Type == corev1.NamespaceDeletionDiscoveryFailure {
			return string(c.Status) + " " + c.Reason + ": " + c.Message
		}
	}
	return "no condition"
}

// care goes through what controllers do for objects of another server: garbage collection in both directions, quotas,
// namespaces.
func (p *pair) care() {
	p.t.Helper()
	p.quota()
	p.owned(backups, "Backup", "alone")
	owner := p.owned(backups, "Backup", "owner")
	p.owned(configMaps, "ConfigMap", "owned", owner)
	p.owned(backups, "Backup", "nested", p.owned(configMaps, "ConfigMap", "outer", owner))
	p.wait()
	p.there(true, "backups/alone", "backups/owner", "backups/nested", "configmaps/owned", "configmaps/outer")
	if n := p.used(); n != "3" {
		p.t.Errorf("%s backups are used, want 3", n)
	}
	p.delete(backups, "owner", metav1.DeletePropagationForeground)
	p.wait()
	p.there(true, "backups/alone")
	p.there(false, "backups/owner", "backups/nested", "configmaps/owned", "configmaps/outer")
	if n := p.used(); n != "1" {
		p.t.Errorf("%s backups are used, want 1", n)
	}

	// A server that does not answer: owners that cannot be seen are not taken for gone, and others go on being served.
	owner = p.owned(backups, "Backup", "seen")
	p.mute.Store(true)
	p.owned(configMaps, "ConfigMap", "kept", owner)
	p.owned(configMaps, "ConfigMap", "inner", p.owned(configMaps, "ConfigMap", "top"))
	p.delete(configMaps, "top", metav1.DeletePropagationBackground)
	p.wait()
	p.there(true, "configmaps/kept")
	p.there(false, "configmaps/top", "configmaps/inner")
	p.mute.Store(false)
	p.wait()
	p.there(true, "configmaps/kept", "backups/seen", "backups/alone")
	if n := p.used(); n != "2" {
		p.t.Errorf("%s backups are used, want 2", n)
	}

	// A namespace does not go while it is not known what is in it.
	p.down.Store(true)
	p.wait()
	if n := p.used(); n != "2" {
		p.t.Errorf("%s backups are used, want 2, which nobody can see", n)
	}
	if err := p.cs.CoreV1().Namespaces().Delete(p.t.Context(), "shop", metav1.DeleteOptions{}); err != nil {
		p.t.Fatal(err)
	}
	p.wait()
	const stale = "True DiscoveryFailed: Discovery failed for some groups, 1 failing: unable to retrieve the complete list of server APIs: " +
		"example.com/v1: stale GroupVersion discovery: example.com/v1"
	if got := p.discoveryFailure(); got != stale {
		p.t.Errorf("the namespace says %q, want %q", got, stale)
	}
	p.down.Store(false)
	p.wait()
	p.wait()
	if got := p.discoveryFailure(); got != "gone" {
		p.t.Errorf("the namespace says %q", got)
	}
	left, err := p.behind.any.Resource(backups).List(p.t.Context(), metav1.ListOptions{})
	if err != nil || len(left.Items) != 0 {
		p.t.Errorf("left are %v, %v", left, err)
	}
}

// TestCitizens: the controllers of a cluster care for the objects of other servers as for its own.
func TestCitizens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startPair(t, cluster.Options{})
		p.register()
		p.care()
	})
}

// outside runs the controllers in a process of their own.
func (p *pair) outside(t *testing.T) {
	m, err := remote.New(p.cluster.Config(), scheme.Scheme, controllermanager.Components(), remote.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	t.Cleanup(func() {
		select {
		case err := <-ended:
			t.Errorf("the controllers have ended: %v", err)
		default:
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
}

// TestCitizensFromOutside: the same by controllers in a process of their own, which runs before the group exists.
func TestCitizensFromOutside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startPair(t, cluster.Options{Components: []cluster.Component{}})
		p.outside(t)
		p.wait()
		p.register()
		p.care()
	})
}

// TestMute: a server that has never told which objects it has neither holds up the controllers nor empties quotas.
func TestMute(t *testing.T) {
	for name, outside := range map[string]bool{"in process": false, "from outside": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testMute(t, outside) })
		})
	}
}

func testMute(t *testing.T, outside bool) {
	o := cluster.Options{}
	if outside {
		o.Components = []cluster.Component{}
	}
	p := startPair(t, o)
	owner, err := p.behind.any.Resource(backups).Namespace("shop").Create(t.Context(), backup("a"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p.mute.Store(true)
	p.register()
	if outside {
		p.outside(t)
		p.wait()
	}
	p.quota()
	p.owned(configMaps, "ConfigMap", "kept", owner)
	p.owned(configMaps, "ConfigMap", "inner", p.owned(configMaps, "ConfigMap", "top"))
	p.delete(configMaps, "top", metav1.DeletePropagationBackground)
	p.wait()
	p.there(true, "configmaps/kept")
	p.there(false, "configmaps/top", "configmaps/inner")
	p.mute.Store(false)
	p.wait()
	if n := p.used(); n != "1" {
		t.Errorf("%s backups are used, want 1", n)
	}
	p.delete(backups, "a", metav1.DeletePropagationBackground)
	p.wait()
	p.there(false, "configmaps/kept")
}

// TestForgotten: when a group is no longer served, what its objects owned is left alone, and nobody asks for them again.
func TestForgotten(t *testing.T) {
	for name, outside := range map[string]bool{"in process": false, "from outside": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testForgotten(t, outside) })
		})
	}
}

func testForgotten(t *testing.T, outside bool) {
	asked := &questions{}
	o := cluster.Options{Logger: slog.New(asked)}
	if outside {
		o.Components = []cluster.Component{}
	}
	p := startPair(t, o)
	if outside {
		p.outside(t)
	}
	p.register()
	p.owned(configMaps, "ConfigMap", "kept", p.owned(backups, "Backup", "a"))
	p.wait()
	if err := p.any.Resource(apiServices).Delete(t.Context(), "v1.example.com", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.wait()
	p.there(true, "configmaps/kept")
	before := asked.Load()
	if before == 0 {
		t.Error("requests are not counted")
	}
	if err := p.behind.any.Resource(backups).Namespace("shop").Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.wait()
	p.there(true, "configmaps/kept")
	if n := asked.Load() - before; n > 0 {
		t.Errorf("backups were asked for %d times", n)
	}
	if err := p.cs.CoreV1().Namespaces().Delete(t.Context(), "shop", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.wait()
	if got := p.discoveryFailure(); got != "gone" {
		t.Errorf("the namespace says %q", got)
	}
}

// TestStale: objects of a server that does not answer for a while are not read again from the start.
func TestStale(t *testing.T) {
	for name, outside := range map[string]bool{"in process": false, "from outside": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := &questions{}
				o := cluster.Options{Logger: slog.New(asked)}
				if outside {
					o.Components = []cluster.Component{}
				}
				p := startPair(t, o)
				if outside {
					p.outside(t)
				}
				p.register()
				before := asked.lists.Load()
				p.down.Store(true)
				p.wait()
				p.down.Store(false)
				p.wait()
				if n := asked.lists.Load(); n != before || n == 0 {
					t.Errorf("backups were listed %d times, then %d times", before, n-before)
				}
			})
		})
	}
}

// questions is the log of a server, which counts the requests about backups.
type questions struct {
	atomic.Int64
	lists atomic.Int64 // those for all of them
}

func (*questions) Enabled(context.Context, slog.Level) bool { return true }

func (q *questions) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "uri" && strings.Contains(a.Value.String(), "/backups") {
			q.Add(1)
			if strings.Contains(a.Value.String(), "sendInitialEvents=true") {
				q.lists.Add(1)
			}
		}
		return true
	})
	return nil
}

func (q *questions) WithAttrs([]slog.Attr) slog.Handler { return q }

func (q *questions) WithGroup(string) slog.Handler { return q }
