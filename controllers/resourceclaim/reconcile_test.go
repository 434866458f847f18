package resourceclaim_test

import (
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
	"github.com/keelson-dev/keelson/controllers/resourceclaim"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/memory"
)

// caches are a controller without a loop, behind caches that show what the test puts into them.
type caches struct {
	*testing.T
	pods      *memory.Store[*corev1.Pod]
	claims    *memory.Store[*resourcev1.ResourceClaim]
	templates *memory.Store[*resourcev1.ResourceClaimTemplate]
	server    trial.Server
	queue     trial.Queue
	events    controllerstest.Recorder
	c         *resourceclaim.Controller
}

func withCaches(t *testing.T, test func(c *caches)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &caches{T: t, pods: memory.New[*corev1.Pod](), claims: memory.New[*resourcev1.ResourceClaim](), templates: memory.New[*resourcev1.ResourceClaimTemplate]()}
		in := resourceclaim.Sources{
			Pods: informer.New[*corev1.Pod](c.pods, informer.Options{}), Claims: informer.New[*resourcev1.ResourceClaim](c.claims, informer.Options{}),
			Templates: informer.New[*resourcev1.ResourceClaimTemplate](c.templates, informer.Options{}),
		}
		c.c = resourceclaim.New(in, &c.server, &c.events)
		if synced := c.c.Watch(&c.queue); len(synced) != 3 {
			t.Errorf("it waits for %d caches", len(synced))
		}
		controllerstest.Go(t, in.Pods, in.Claims, in.Templates)
		test(c)
	})
}

// reconcile returns the requests, and the error.
func (c *caches) reconcile(key string) string {
	c.Helper()
	synctest.Wait()
	result, err := c.c.Reconcile(c.Context(), controllers.Key{Namespace: "ns", Name: key})
	if result.RequeueAfter != 0 {
		c.Errorf("%s: again after %v", key, result.RequeueAfter)
	}
	said := c.server.Take()
	if err != nil {
		said = append(said, err.Error())
	}
	return strings.Join(said, ", ")
}

func (c *caches) expect(what, got, want string) {
	c.Helper()
	if got != want {
		c.Errorf("%s: %s, want %s", what, got, want)
	}
}

func missing() error { return apierrors.NewNotFound(resourcev1.Resource("x"), "x") }

// web returns a pod with a claim of the template.
func web() *corev1.Pod {
	p := pod("web")
	p.UID = "1"
	p.Spec.ResourceClaims = p.Spec.ResourceClaims[:1]
	return p
}

func of(p *corev1.Pod) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID, Controller: new(true)}}
}

// mine returns a claim that was made for a pod, and that is allocated.
func mine(name string, p *corev1.Pod, reservedFor ...*corev1.Pod) *resourcev1.ResourceClaim {
	c := claim(name, true, reservedFor...)
	c.OwnerReferences, c.Annotations = of(p), map[string]string{resourcev1.PodResourceClaimAnnotation: "gpu"}
	return c
}

func told(p *corev1.Pod, name string) {
	p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: &name}}
}

const (
	create, get            = "create resourceclaims", "get resourceclaims"
	tell, writeStatus      = "patch pods/status", "update resourceclaims/status"
	update, deletion       = "update resourceclaims", "delete resourceclaims"
	failed                 = "pod ns/web, PodResourceClaim gpu: "
	getPod, ofPod, ofClaim = "get pods", "pod:web", "claim:c"
)

// TestProvide: what is asked of the server for a pod.
func TestProvide(t *testing.T) {
	for name, tt := range map[string]struct {
		to   func(c *caches, p *corev1.Pod)
		want string
	}{
		"new":         {func(*caches, *corev1.Pod) {}, create + ", " + tell},
		"no template": {func(c *caches, _ *corev1.Pod) { c.templates.Delete("ns", "t") }, failed + `resource claim template "t": resourceclaimtemplate.resource.k8s.io "t" not found`},
		"not made":    {func(c *caches, _ *corev1.Pod) { c.server.Fail(create, trial.ErrDown) }, create + ", " + failed + "create ResourceClaim : down"},
		"no claim":    {func(c *caches, _ *corev1.Pod) { c.server.Answer("resourceclaims", &corev1.Pod{}) }, create + ", " + failed + "server answered with a *v1.Pod"},
		"not told":    {func(c *caches, _ *corev1.Pod) { c.server.Fail(tell, trial.ErrDown) }, create + ", " + tell + ", update pod ns/web ResourceClaimStatuses: down"},
		"finished":    {func(_ *caches, p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, ""},
		"failed":      {func(_ *caches, p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, ""},
		"going":       {func(_ *caches, p *corev1.Pod) { p.DeletionTimestamp, p.Spec.NodeName = new(metav1.Now()), "n" }, ""},
		"of no kind":  {func(_ *caches, p *corev1.Pod) { p.Spec.ResourceClaims[0].ResourceClaimTemplateName = nil }, ""},
		"made before": {func(c *caches, p *corev1.Pod) { c.claims.Put(mine("c", p)) }, tell},
		"made for others": {func(c *caches, _ *corev1.Pod) {
			c.claims.Put(mine("c", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "2"}}))
		}, create + ", " + tell},
		"made for another reference": {func(c *caches, p *corev1.Pod) {
			other := mine("c", p)
			other.Annotations[resourcev1.PodResourceClaimAnnotation] = "other"
			c.claims.Put(other)
		}, create + ", " + tell},
		"made elsewhere": {func(c *caches, p *corev1.Pod) {
			other := mine("c", p)
			other.Namespace = "elsewhere"
			c.claims.Put(other)
		}, create + ", " + tell},
		"told":              {func(c *caches, p *corev1.Pod) { told(p, "c"); c.claims.Put(mine("c", p)) }, ""},
		"told of another's": {func(c *caches, p *corev1.Pod) { told(p, "c"); c.claims.Put(claim("c", true)) }, create + ", " + tell},
		"told, not shown":   {func(c *caches, p *corev1.Pod) { told(p, "c"); c.server.Answer("resourceclaims ns/c", mine("c", p)) }, get},
		"told, gone":        {func(_ *caches, p *corev1.Pod) { told(p, "c") }, get + ", " + create + ", " + tell},
		"told, no word":     {func(c *caches, p *corev1.Pod) { told(p, "c"); c.server.Fail(get, trial.ErrDown) }, get + ", " + failed + "checking claim existence: down"},
		"told, no claim":    {func(c *caches, p *corev1.Pod) { told(p, "c"); c.server.Answer("resourceclaims ns/c", &corev1.Pod{}) }, get + ", " + failed + "checking claim existence: server answered with a *v1.Pod"},
		"told of none": {func(_ *caches, p *corev1.Pod) {
			told(p, "c")
			p.Status.ResourceClaimStatuses[0].ResourceClaimName = nil
		}, ""},
		"told about another": {func(_ *caches, p *corev1.Pod) { told(p, "c"); p.Status.ResourceClaimStatuses[0].Name = "other" }, create + ", " + tell},
		"bound": {func(c *caches, p *corev1.Pod) {
			told(p, "c")
			c.claims.Put(mine("c", p))
			p.Spec.NodeName = "n"
		}, writeStatus},
		"bound, not told": {func(_ *caches, p *corev1.Pod) { p.Spec.NodeName = "n" }, create + ", " + tell},
		"bound, told of none": {func(c *caches, p *corev1.Pod) {
			told(p, "c")
			p.Status.ResourceClaimStatuses[0].ResourceClaimName = nil
			p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: "s", ResourceClaimName: new("shared")})
			c.claims.Put(claim("shared", true))
			p.Spec.NodeName = "n"
		}, writeStatus},
		"bound, reserved": {func(c *caches, p *corev1.Pod) {
			told(p, "c")
			c.claims.Put(mine("c", p, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "9"}}, p))
			p.Spec.NodeName = "n"
		}, ""},
		"bound, the second is not reserved": {func(c *caches, p *corev1.Pod) {
			told(p, "c")
			c.claims.Put(mine("c", p, p))
			p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: "s", ResourceClaimName: new("shared")})
			c.claims.Put(claim("shared", true))
			p.Spec.NodeName = "n"
		}, writeStatus},
		"bound, not allocated": {func(c *caches, p *corev1.Pod) {
			told(p, "c")
			m := mine("c", p)
			m.Status.Allocation = nil
			c.claims.Put(m)
			p.Spec.NodeName = "n"
		}, ""},
		"bound, not shown": {func(c *caches, p *corev1.Pod) {
			told(p, "c")
			c.server.Answer("resourceclaims ns/c", mine("c", p))
			p.Spec.NodeName = "n"
		}, get},
		"bound, not reserved": {func(c *caches, p *corev1.Pod) {
			told(p, "c")
			c.claims.Put(mine("c", p))
			c.server.Fail(writeStatus, trial.ErrDown)
			p.Spec.NodeName = "n"
		}, writeStatus + ", reserve claim ns/c: down"},
		"bound, no claim": {func(c *caches, p *corev1.Pod) {
			told(p, "c")
			c.claims.Put(mine("c", p))
			c.server.Answer("resourceclaims", &corev1.Pod{})
			p.Spec.NodeName = "n"
		}, writeStatus + ", reserve claim ns/c: server answered with a *v1.Pod"},
		"bound, of another": {func(c *caches, p *corev1.Pod) {
			p.Spec.NodeName = "n"
			told(p, "c")
			c.claims.Put(claim("c", true))
		}, create + ", " + tell + ", ResourceClaim ns/c was not created for Pod ns/web (Pod is not owner)"},
	} {
		t.Run(name, func(t *testing.T) {
			withCaches(t, func(c *caches) {
				c.templates.Put(template())
				p := web()
				tt.to(c, p)
				c.pods.Put(p)
				c.expect("pod", c.reconcile(ofPod), tt.want)
				events := strings.Join(c.events.Take(), ", ")
				if reason, ok := strings.CutPrefix(tt.want[strings.LastIndex(tt.want, failed)+1:], failed[1:]); ok {
					c.expect("event", events, "Warning FailedResourceClaimCreation PodResourceClaim gpu: "+reason)
				} else {
					c.expect("event", events, "")
				}
			})
		})
	}
}

// TestMade: what was made is known before the cache shows it, and forgotten with its pod, or when the cache has shown it.
func TestMade(t *testing.T) {
	withCaches(t, func(c *caches) {
		bare := template()
		bare.Spec.ObjectMeta = metav1.ObjectMeta{}
		c.templates.Put(bare)
		p := c.pods.Put(web())
		c.server.Answer("resourceclaims", mine("c", p))
		c.expect("new", c.reconcile(ofPod), create+", "+tell)
		c.expect("not shown", c.reconcile(ofPod), tell)
		if got, want := c.server.Sent(), `{"metadata":{"uid":"1"},"status":{"resourceClaimStatuses":[{"name":"gpu","resourceClaimName":"c"}]}}`; got != want {
			t.Errorf("sent %v", got)
		}
		c.claims.Put(mine("c", p))
		c.expect("shown", c.reconcile(ofPod), tell)
		c.claims.Delete("ns", "c")
		c.expect("gone", c.reconcile(ofPod), create+", "+tell)
		c.pods.Delete("ns", "web")
		c.expect("no pod", c.reconcile(ofPod), "")
		c.pods.Put(web())
		c.expect("another life", c.reconcile(ofPod), create+", "+tell)
		// The cache may be the first to hear of it.
		foreign := claim("d", true)
		foreign.Namespace = "ns"
		c.claims.Put(foreign)
		c.pods.Delete("ns", "web")
		c.pods.Put(web())
		c.server.Answer("resourceclaims", foreign)
		synctest.Wait()
		c.expect("shown first", c.reconcile(ofPod), create+", "+tell)
		c.expect("shown first", c.reconcile(ofPod), create+", "+tell)
	})
}

// TestGenerated: how the names of claims begin.
func TestGenerated(t *testing.T) {
	for name, tt := range map[string]struct {
		pod, claim int // lengths of their names
		want       string
	}{
		"short":          {3, 3, "ppp-ccc-"},
		"just fitting":   {40, 15, strings.Repeat("p", 40) + "-" + strings.Repeat("c", 15) + "-"},
		"just too long":  {41, 15, strings.Repeat("p", 40) + "-" + strings.Repeat("c", 14)},
		"much too long":  {60, 40, strings.Repeat("p", 33) + "-" + strings.Repeat("c", 22)},
		"only the claim": {1, 63, "-" + strings.Repeat("c", 54)},
	} {
		t.Run(name, func(t *testing.T) {
			withCaches(t, func(c *caches) {
				c.templates.Put(template())
				p := web()
				p.Name, p.Spec.ResourceClaims[0].Name = strings.Repeat("p", tt.pod), strings.Repeat("c", tt.claim)
				c.pods.Put(p)
				c.server.Fail(tell, trial.ErrDown)
				c.reconcile("pod:" + p.Name)
				var got string
				c.server.Fail(create, trial.ErrDown)
				q := web()
				q.Name, q.UID, q.Spec.ResourceClaims[0].Name = p.Name, "other", p.Spec.ResourceClaims[0].Name
				c.pods.Put(q)
				c.reconcile("pod:" + p.Name)
				if sent, ok := c.server.Sent().(*resourcev1.ResourceClaim); ok {
					got = sent.GenerateName
				}
				c.expect("name", got, tt.want)
			})
		})
	}
}

// TestRelease: what is asked of the server for a claim.
func TestRelease(t *testing.T) {
	thing := resourcev1.ResourceClaimConsumerReference{APIGroup: "x", Resource: "pods", Name: "t", UID: "9"}
	going := func(c *resourcev1.ResourceClaim) { c.DeletionTimestamp = new(metav1.Now()) }
	const all = writeStatus + ", " + update
	type world struct {
		*caches
		pod   *corev1.Pod
		claim *resourcev1.ResourceClaim // reserved for the pod, of this control plane
	}
	for name, tt := range map[string]struct {
		to   func(w *world)
		want string
	}{
		"used":             {func(*world) {}, ""},
		"used and going":   {func(w *world) { going(w.claim) }, ""},
		"the pod is done":  {func(w *world) { w.pod.Status.Phase = corev1.PodFailed }, all},
		"the pod is gone":  {func(w *world) { w.pod.Name = "other" }, getPod + ", " + all},
		"of another life":  {func(w *world) { w.pod.UID = "2" }, all},
		"the pod is new":   {func(w *world) { w.server.Answer("pods", w.pod.DeepCopy()); w.pod.Name = "other" }, getPod},
		"the pod is newer": {func(w *world) { p := w.pod.DeepCopy(); p.UID = "2"; w.server.Answer("pods", p); w.pod.Name = "other" }, getPod + ", " + all},
		"no pod":           {func(w *world) { w.server.Answer("pods", &corev1.Node{}); w.pod.Name = "other" }, getPod + ", " + all},
		"no word":          {func(w *world) { w.server.Fail(getPod, trial.ErrDown); w.pod.Name = "other" }, getPod + ", claim ns/c: down"},
		"not written":      {func(w *world) { w.server.Fail(writeStatus, trial.ErrDown); w.pod.UID = "2" }, writeStatus + ", claim ns/c: down"},
		"not finished":     {func(w *world) { w.server.Fail(update, trial.ErrDown); w.pod.UID = "2" }, all + ", claim ns/c: down"},
		"a thing has it": {func(w *world) {
			w.claim.Status.ReservedFor = append(w.claim.Status.ReservedFor, thing)
			w.pod.UID = "2"
		}, writeStatus},
		"only a thing":      {func(w *world) { w.claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{thing} }, ""},
		"of a driver":       {func(w *world) { w.claim.Finalizers = []string{"x"}; w.pod.UID = "2" }, writeStatus},
		"without finalizer": {func(w *world) { w.claim.Finalizers, w.claim.Status.Allocation = nil, nil; w.pod.UID = "2" }, writeStatus},
		"free":              {func(w *world) { w.claim.Status.ReservedFor = nil }, ""},
		"free and going":    {func(w *world) { w.claim.Status.ReservedFor = nil; going(w.claim) }, all},
		"deallocated":       {func(w *world) { w.claim.Status = resourcev1.ResourceClaimStatus{}; going(w.claim) }, update},
		"a driver's, going": {func(w *world) { w.claim.Status.ReservedFor, w.claim.Finalizers = nil, []string{"x"}; going(w.claim) }, ""},
		"going, not written": {func(w *world) {
			w.claim.Status.ReservedFor = nil
			going(w.claim)
			w.server.Fail(writeStatus, trial.ErrDown)
		}, writeStatus + ", claim ns/c: down"},
		"going, not finished": {func(w *world) {
			w.claim.Status.ReservedFor = nil
			going(w.claim)
			w.server.Fail(update, trial.ErrDown)
		}, all + ", claim ns/c: down"},
		"made for it":        {func(w *world) { w.claim.OwnerReferences = of(w.pod) }, ""},
		"made for it, free":  {func(w *world) { w.claim.OwnerReferences, w.claim.Status.ReservedFor = of(w.pod), nil }, ""},
		"made for it, done":  {func(w *world) { w.claim.OwnerReferences = of(w.pod); w.pod.Status.Phase = corev1.PodFailed }, all + ", " + deletion},
		"made for it, ended": {func(w *world) { w.claim.OwnerReferences = of(w.pod); w.pod.Status.Phase = corev1.PodSucceeded }, all + ", " + deletion},
		"made for it, going": {func(w *world) {
			w.claim.OwnerReferences = of(w.pod)
			w.pod.Status.Phase = corev1.PodFailed
			going(w.claim)
		}, all},
		"made for it, gone":     {func(w *world) { w.claim.OwnerReferences = of(w.pod); w.pod.Name = "other" }, getPod + ", " + all},
		"made for another life": {func(w *world) { w.claim.OwnerReferences = of(w.pod); w.pod.UID = "2" }, all + ", " + deletion},
		"not a controller": {func(w *world) {
			w.claim.OwnerReferences = of(w.pod)
			w.claim.OwnerReferences[0].Controller = new(false)
			w.pod.UID = "2"
		}, all},
		"no controller": {func(w *world) {
			w.claim.OwnerReferences = of(w.pod)
			w.claim.OwnerReferences[0].Controller = nil
			w.pod.UID = "2"
		}, all},
		"of another kind": {func(w *world) {
			w.claim.OwnerReferences = of(w.pod)
			w.claim.OwnerReferences[0].Kind = "X"
			w.pod.UID = "2"
		}, all},
		"of another version": {func(w *world) {
			w.claim.OwnerReferences = of(w.pod)
			w.claim.OwnerReferences[0].APIVersion = "x/v1"
			w.pod.UID = "2"
		}, all},
		"waiting for its end":   {func(w *world) { w.claim.OwnerReferences = of(w.pod); w.pod.DeletionTimestamp = new(metav1.Now()) }, all + ", " + deletion},
		"bound, before its end": {func(w *world) { w.pod.DeletionTimestamp, w.pod.Spec.NodeName = new(metav1.Now()), "n" }, ""},
		"deleted by another": {func(w *world) {
			w.claim.OwnerReferences = of(w.pod)
			w.pod.UID = "2"
			w.server.Fail(deletion, missing())
		}, all + ", " + deletion},
		"not deleted": {func(w *world) {
			w.claim.OwnerReferences = of(w.pod)
			w.pod.UID = "2"
			w.server.Fail(deletion, trial.ErrDown)
		}, all + ", " + deletion + ", claim ns/c: delete unused generated claim ns/c: down"},
		"made for it and shared": {func(w *world) {
			w.claim.OwnerReferences = of(w.pod)
			w.claim.Status.ReservedFor = append(w.claim.Status.ReservedFor, thing)
			w.pod.UID = "2"
		}, writeStatus},
	} {
		t.Run(name, func(t *testing.T) {
			withCaches(t, func(c *caches) {
				p := web()
				w := &world{c, p, claim("c", true, p)}
				tt.to(w)
				c.pods.Put(p)
				c.claims.Put(w.claim)
				c.expect("claim", c.reconcile(ofClaim), tt.want)
				if sent, ok := c.server.Sent().(*resourcev1.ResourceClaim); ok && strings.Contains(tt.want, update+",") && (len(sent.Finalizers) > 0 || sent.Status.Allocation != nil) {
					t.Errorf("sent %+v", sent)
				}
			})
		})
	}
	withCaches(t, func(c *caches) { c.expect("no claim", c.reconcile(ofClaim), "") })
}

// TestQueued: which changes are looked at.
func TestQueued(t *testing.T) {
	withCaches(t, func(c *caches) {
		expect := func(what, want string) {
			t.Helper()
			synctest.Wait()
			c.expect(what, c.queue.Take(), want)
		}
		show := func(change func(p *corev1.Pod)) *corev1.Pod {
			p := web()
			change(p)
			return c.pods.Put(p)
		}
		show(func(p *corev1.Pod) { p.Spec.ResourceClaims = nil })
		expect("without claims", "")
		p := show(func(*corev1.Pod) {})
		expect("not told", "ns/pod:web")
		show(func(p *corev1.Pod) { told(p, "c") })
		expect("without its claim", "ns/pod:web")
		c.claims.Put(mine("c", p))
		expect("its claim", "ns/claim:c")
		show(func(p *corev1.Pod) { told(p, "c") })
		expect("with its claim", "")
		show(func(p *corev1.Pod) { told(p, "c"); p.Status.ResourceClaimStatuses[0].ResourceClaimName = nil })
		expect("told of none", "")
		show(func(p *corev1.Pod) { told(p, "c"); p.Spec.NodeName = "n" })
		expect("bound, not reserved", "ns/pod:web")
		c.claims.Put(mine("c", p, p))
		expect("reserved", "ns/claim:c")
		show(func(p *corev1.Pod) { told(p, "c"); p.Spec.NodeName = "n" })
		expect("bound, reserved", "")
		c.claims.Put(claim("c", true))
		expect("of another", "ns/claim:c")
		show(func(p *corev1.Pod) { told(p, "c"); p.Spec.NodeName = "n" })
		expect("told of another's", "")
		show(func(p *corev1.Pod) {
			p.Spec.ResourceClaims[0] = corev1.PodResourceClaim{Name: "s", ResourceClaimName: new("shared")}
		})
		expect("waiting for a claim of others", "")
		show(func(p *corev1.Pod) { told(p, "c"); p.DeletionTimestamp, p.Spec.NodeName = new(metav1.Now()), "n" })
		expect("going", "")
		show(func(p *corev1.Pod) { told(p, "c"); p.Status.Phase = corev1.PodSucceeded })
		expect("done", "ns/claim:c")
		show(func(p *corev1.Pod) {
			told(p, "c")
			p.Status.ResourceClaimStatuses[0].ResourceClaimName, p.Status.Phase = nil, corev1.PodSucceeded
			p.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "e"}
		})
		expect("done, with extended resources", "ns/claim:e")
		show(func(p *corev1.Pod) { told(p, "c") })
		expect("back", "")
		c.claims.Delete("ns", "c")
		expect("its claim is gone", "ns/pod:web")
		c.templates.Put(template())
		expect("a template", "ns/pod:web")
		c.templates.Put(template())
		expect("a changed template", "ns/pod:web")
		other := template()
		other.Name = "other"
		c.templates.Put(other)
		expect("another template", "")
		c.pods.Delete("ns", "web")
		expect("gone", "ns/claim:c")
	})
}
