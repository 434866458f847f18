package resourcequota_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/resourcequota"
)

const quiet = 2 * time.Minute

// book is a ledger with one quota that is looked at.
type book struct {
	*testing.T
	resourcequota.Ledger
	now time.Time
}

func newBook(t *testing.T) *book {
	return &book{t, resourcequota.NewLedger("pods", "configmaps", "services"), time.Unix(10_000, 0)}
}

// show is a list of quantities as text.
func show(list corev1.ResourceList) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(list)) {
		quantity := list[name]
		parts = append(parts, string(name)+"="+quantity.String())
	}
	return strings.Join(parts, " ")
}

// judge compares what becomes of a quota: its usage, then "write", "unaccounted", or "nobody's".
func (b *book) judge(what string, q *corev1.ResourceQuota, want string) {
	b.Helper()
	used, _, write, unaccounted, ok := b.Judge(q, b.now, quiet)
	got := show(used)
	if write {
		got += " write"
	}
	if unaccounted {
		got += " unaccounted"
	}
	if !ok {
		got = "nobody's"
	}
	if got != want {
		b.Errorf("%s: %q, want %q", what, got, want)
	}
}

func (b *book) keys(what string, got []controllers.Key, want ...string) {
	b.Helper()
	var all []string
	for _, k := range got {
		all = append(all, k.String())
	}
	slices.Sort(all)
	if !slices.Equal(all, want) {
		b.Errorf("%s: %v, want %v", what, all, want)
	}
}

// of is a quota in namespace ns with limits of 9, and its usage.
func of(name string, uid types.UID, used string, limits ...string) *corev1.ResourceQuota {
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: uid}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{}}}
	for _, l := range limits {
		q.Spec.Hard[corev1.ResourceName(l)] = resource.MustParse("9")
	}
	q.Status.Hard = q.Spec.Hard.DeepCopy()
	if used != "" {
		q.Status.Used = corev1.ResourceList{}
		for _, pair := range strings.Fields(used) {
			name, n, _ := strings.Cut(pair, "=")
			q.Status.Used[corev1.ResourceName(name)] = resource.MustParse(n)
		}
	}
	return q
}

func named(name string) *corev1.Pod {
	p := podOf(name, "1")
	p.Namespace = "ns"
	return p
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
}

func TestJudge(t *testing.T) {
	for name, tt := range map[string]struct {
		used   string // by the quota's status
		limits []string
		pods   int
		risen  time.Duration // how long ago usage rose
		want   string
	}{
		"as it is":                  {"pods=2", []string{"pods"}, 2, time.Second, "pods=2"},
		"too little":                {"pods=1", []string{"pods"}, 2, time.Second, "pods=2 write"},
		"charged, perhaps to come":  {"pods=3", []string{"pods"}, 2, time.Second, "pods=3 unaccounted"},
		"nearly quiet":              {"pods=3", []string{"pods"}, 2, quiet - 1, "pods=3 unaccounted"},
		"quiet":                     {"pods=3", []string{"pods"}, 2, quiet, "pods=2 write"},
		"never said":                {"", []string{"pods"}, 0, time.Hour, "pods=0 write"},
		"never said, nothing known": {"", []string{"gold"}, 0, time.Hour, " write"},
		"of others":                 {"gold=7 pods=0", []string{"gold", "pods"}, 0, time.Hour, "gold=7 pods=0"},
		"a limit less":              {"pods=2 services=1", []string{"pods"}, 2, time.Hour, "pods=2 write"},
		"a limit more":              {"pods=2", []string{"pods", "services"}, 2, time.Second, "pods=2 services=0 write"},
	} {
		b := newBook(t)
		q := of("q", "u", tt.used, tt.limits...)
		b.Track(q, b.now)
		for i := range tt.pods {
			b.Put("pods", named(fmt.Sprint(i)), b.now)
		}
		b.now = b.now.Add(tt.risen)
		had := q.DeepCopy()
		b.judge(name, q, tt.want)
		if q.String() != had.String() {
			t.Errorf("%s: the quota was changed", name)
		}
	}
	b := newBook(t)
	q := of("q", "u", "pods=0", "pods")
	b.judge("before it is tracked", q, "nobody's")
	b.Track(q, b.now)
	b.judge("another of that name", of("q", "v", "", "pods"), "nobody's")
	b.judge("another name", of("r", "u", "", "pods"), "nobody's")
	q.Status.Hard["pods"] = resource.MustParse("8")
	b.judge("another limit in force", q, "pods=0 write")
}

// TestBook: what comes and goes, and which quotas are to be looked at for it.
func TestBook(t *testing.T) {
	b := newBook(t)
	q, maps := of("q", "u", "pods=0", "pods"), of("maps", "m", "configmaps=0 pods=1", "configmaps", "pods")
	b.Track(q, b.now)
	b.Track(maps, b.now)
	b.keys("one that was not charged", b.Put("pods", named("a"), b.now), "ns/q")
	b.keys("the same again", b.Put("pods", named("a"), b.now))
	b.keys("no quota's", b.Put("services", &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s"}}, b.now))
	b.keys("only one's", b.Put("configmaps", configMap("a"), b.now), "ns/maps")
	b.Put("configmaps", configMap("b"), b.now)
	b.judge("one", q, "pods=1 write")
	b.judge("all", maps, "configmaps=2 pods=1 write")
	late := of("late", "l", "", "configmaps", "count/pods", "services")
	b.Track(late, b.now)
	b.judge("one that comes later", late, "configmaps=2 count/pods=1 services=1 write")

	b.keys("one that goes", b.Drop("configmaps", configMap("b"), b.now), "ns/late", "ns/maps")
	b.judge("what is left", maps, "configmaps=1 pods=1 write")
	b.Drop("configmaps", configMap("a"), b.now)
	b.judge("none is left", maps, "configmaps=0 pods=1 write")
	b.Put("configmaps", configMap("c"), b.now)
	b.judge("and one again", maps, "configmaps=1 pods=1 write")
	b.keys("a pod that goes", b.Drop("pods", named("a"), b.now), "ns/late", "ns/maps", "ns/q")
	b.keys("and again", b.Drop("pods", named("a"), b.now))
	b.judge("is given back", q, "pods=0 write")
	more := q.DeepCopy()
	more.Spec.Hard["count/pods"] = resource.MustParse("1")
	b.Put("pods", named("z"), b.now)
	b.Track(more, b.now)
	b.judge("with another limit", more, "count/pods=1 pods=1 write")
	best := of("best", "b", "", "pods")
	best.Spec.Scopes = []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeBestEffort}
	b.Track(best, b.now)
	b.judge("of best effort, which no pod is", best, "pods=0 write")
}

// TestSettle: what was given back is taken off once.
func TestSettle(t *testing.T) {
	b := newBook(t)
	q := of("q", "u", "pods=3", "pods")
	b.Track(q, b.now)
	b.Put("pods", named("a"), b.now)
	b.Drop("pods", named("a"), b.now)
	b.judge("one is given back", q, "pods=2 write unaccounted")
	_, released, _, _, _ := b.Judge(q, b.now, quiet)
	if got := show(released); got != "pods=1" {
		t.Errorf("released %s", got)
	}
	b.Settle(of("q", "other", ""), released)
	b.Settle(of("other", "u", ""), released)
	elsewhere := of("q", "u", "")
	elsewhere.Namespace = "elsewhere"
	b.Settle(elsewhere, released)
	b.judge("others were settled", q, "pods=2 write unaccounted")
	b.Put("pods", named("b"), b.now)
	b.Drop("pods", named("b"), b.now) // meanwhile
	b.Settle(q, released)
	b.judge("written, but not seen", q, "pods=2 write unaccounted")
	q.Status.Used["pods"] = resource.MustParse("2")
	b.Track(q, b.now)
	b.judge("seen", q, "pods=1 write unaccounted")
	equal := of("q", "u", "pods=2", "pods")
	b.Put("pods", named("c"), b.now)
	b.judge("as much is there as is left", equal, "pods=1 write")
}

// TestQuietSince: it is a rise of usage that has to be waited for.
func TestQuietSince(t *testing.T) {
	b := newBook(t)
	b.Track(of("q", "u", "pods=3", "pods"), b.now)
	b.now = b.now.Add(quiet - time.Second)
	b.Track(of("q", "u", "pods=3", "pods"), b.now)
	b.Track(of("q", "u", "pods=2", "pods"), b.now)
	b.now = b.now.Add(time.Second)
	b.judge("it did not rise", of("q", "u", "pods=2", "pods"), "pods=0 write")
	b.Track(of("q", "u", "pods=3", "pods"), b.now)
	b.judge("it rose", of("q", "u", "pods=3", "pods"), "pods=3 unaccounted")
	b.now = b.now.Add(quiet)
	b.Track(of("q", "v", "pods=3", "pods"), b.now)
	b.judge("it is another", of("q", "v", "pods=3", "pods"), "pods=3 unaccounted")
}

// TestForgotten: a namespace without objects and quotas takes no memory.
func TestForgotten(t *testing.T) {
	b := newBook(t)
	q := of("q", "u", "", "pods")
	want := func(what string, want int) {
		t.Helper()
		if got := b.Spaces(); got != want {
			t.Errorf("%s: %d namespaces, want %d", what, got, want)
		}
	}
	b.Untrack(q)
	want("nothing", 0)
	b.Put("pods", named("a"), b.now)
	b.Untrack(q)
	b.Put("configmaps", configMap("a"), b.now)
	b.Track(q, b.now)
	want("all", 1)
	b.Untrack(of("q", "other", "", "pods"))
	b.judge("another was forgotten", q, "pods=1 write")
	b.Untrack(q)
	b.judge("forgotten", q, "nobody's")
	want("objects", 1)
	b.Drop("pods", named("a"), b.now)
	want("one object", 1)
	b.Drop("configmaps", configMap("a"), b.now)
	want("nothing is left", 0)
	b.Track(q, b.now)
	b.Put("pods", named("a"), b.now)
	b.Drop("pods", named("a"), b.now)
	want("a quota", 1)
	b.Untrack(q)
	want("nothing at all", 0)
}

// TestAge: a pod whose time to end is over counts no more, from the next look on.
func TestAge(t *testing.T) {
	b := newBook(t)
	pod := named("a")
	seconds := int64(30)
	at := metav1.NewTime(b.now.Add(30 * time.Second))
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &at, &seconds
	q := of("q", "u", "pods=2", "pods")
	b.Track(q, b.now)
	b.Put("pods", pod, b.now)
	b.Put("pods", named("b"), b.now)
	other := named("c")
	other.Namespace = "without"
	b.Put("pods", other, b.now)
	b.keys("all quotas", b.Age(b.now), "ns/q")
	b.judge("its time is not over", q, "pods=2")
	b.now = b.now.Add(61 * time.Second)
	b.keys("all quotas", b.Age(b.now), "ns/q")
	b.judge("its time is over", q, "pods=1 write")
	b.Age(b.now)
	b.judge("it is given back once", q, "pods=1 write")
}

func TestRefused(t *testing.T) {
	status := func(code int32) error { return &apierrors.StatusError{ErrStatus: metav1.Status{Code: code}} }
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{errors.New("lost"), false}, {status(0), false}, {status(399), false}, {status(400), true}, {status(422), true}, {status(499), true},
		{status(http.StatusInternalServerError), false}, {status(504), false}, {fmt.Errorf("so: %w", status(403)), true},
	} {
		if got := resourcequota.Refused(tt.err); got != tt.want {
			t.Errorf("%v: %t", tt.err, got)
		}
	}
}

// TestResync: what fails in a look at all quotas is tried again soon.
func TestResync(t *testing.T) {
	var failing atomic.Bool
	var writes atomic.Int32
	inBubble(t, func(a faults.Request) error {
		if a.Target.Subresource == "status" && failing.Load() && writes.Add(1) < 3 {
			return errors.New("down")
		}
		return nil
	}, func(b *bench) {
		b.create("resourcequotas", quotaOf("pods", "9"))
		b.create("resourcequotas", func() *corev1.ResourceQuota { q := quotaOf("pods", "9"); q.Name = "r"; return q }())
		pod := podOf("a", "0")
		pod.Finalizers = []string{"example.com/stays"}
		b.create("pods", pod)
		b.used("pods=1")
		if err := b.api.Delete(b.Context(), client.Target{Resource: controllerstest.Pods(), Namespace: "ns", Name: "a"}, *metav1.NewDeleteOptions(30)); err != nil {
			b.Fatal(err)
		}
		b.used("pods=1")
		failing.Store(true)
		time.Sleep(5*time.Minute + 100*time.Millisecond)
		b.used("pods=0")
		if writes.Load() < 3 {
			b.Errorf("%d writes", writes.Load())
		}
	})
}
