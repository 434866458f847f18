package nodeipam_test

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/nodeipam"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/lag"
	"github.com/keelson-dev/keelson/informer/memory"
)

var nodes = corev1.SchemeGroupVersion.WithResource("nodes")

// bench is a running controller with its API, in a bubble.
type bench struct {
	*testing.T
	api    *controllerstest.API
	source *lag.Source[*corev1.Node]
	events controllerstest.Recorder
	seen   int

	mu     sync.Mutex
	before func(faults.Request) error
}

func inBubble(t *testing.T, o nodeipam.Options, existing []informer.Object, test func(*bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t}
		b.api = controllerstest.Start(t, controllerstest.Options{Objects: existing, Before: func(r faults.Request) error {
			b.mu.Lock()
			before := b.before
			b.mu.Unlock()
			if before == nil || r.Verb != faults.Patch {
				return nil
			}
			return before(r)
		}})
		b.source = controllerstest.Source[*corev1.Node](b.api, nodes)
		in := nodeipam.Sources{Nodes: informer.New(b.source, informer.Options{DetectMutations: func(err error) { t.Error(err) }})}
		c, err := nodeipam.New(in, b.api, &b.events, o)
		if err != nil {
			t.Fatal(err)
		}
		if c.Name() != "node-ipam-controller" {
			t.Errorf("named %s", c.Name())
		}
		controllerstest.Go(t, in.Nodes, controllers.NewLoop(c, controllers.Options{}))
		synctest.Wait()
		test(b)
	})
}

func (b *bench) whenPatched(do func(faults.Request) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.before = do
}

func node(name string, cidrs ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Spec.PodCIDRs = cidrs
	if len(cidrs) > 0 {
		n.Spec.PodCIDR = cidrs[0]
	}
	return n
}

func at(name string) client.Target { return client.Target{Resource: nodes, Name: name} }

// add creates nodes one after another.
func (b *bench) add(all ...*corev1.Node) {
	b.Helper()
	for _, n := range all {
		controllerstest.Add(b, b.api, n)
		synctest.Wait()
	}
}

func (b *bench) remove(name string) {
	b.Helper()
	if err := b.api.Others.Delete(b.Context(), at(name), metav1.DeleteOptions{}); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

// touch changes a node, so that the controller looks at it again.
func (b *bench) touch(name, data string) {
	b.Helper()
	patch := client.Patch{Type: types.MergePatchType, Data: []byte(data)}
	if _, err := b.api.Others.Patch(b.Context(), at(name), patch, metav1.PatchOptions{}); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

// want compares the networks of a node.
func (b *bench) want(name string, cidrs ...string) {
	b.Helper()
	obj, err := b.api.Others.Get(b.Context(), at(name))
	if err != nil {
		b.Fatal(err)
	}
	n := obj.(*corev1.Node)
	if !slices.Equal(n.Spec.PodCIDRs, cidrs) || len(cidrs) > 0 && n.Spec.PodCIDR != cidrs[0] {
		b.Errorf("node %s has %q of %v, want %v", name, n.Spec.PodCIDR, n.Spec.PodCIDRs, cidrs)
	}
}

// told expects the events since the last call: their reasons and nodes, each once.
func (b *bench) told(want ...string) {
	b.Helper()
	var got []string
	all := b.events.Events()
	for _, e := range all[b.seen:] {
		got = append(got, e.Reason+" "+e.Regarding.Name)
	}
	b.seen = len(all)
	if got = slices.Compact(got); !slices.Equal(got, want) {
		b.Errorf("events %v, want %v", got, want)
	}
}

func networks(texts ...string) (o nodeipam.Options) {
	for _, text := range texts {
		o.Networks = append(o.Networks, prefix(text))
	}
	return o
}

func TestNodes(t *testing.T) {
	inBubble(t, networks("10.64.0.0/22"), nil, func(b *bench) {
		b.add(node("a"), node("b"))
		b.want("a", "10.64.0.0/24")
		b.want("b", "10.64.1.0/24")
		writes := b.api.Writes()
		if len(writes) != 2 || writes[0].String() != "patch nodes a" || string(writes[0].Patch) != `{"spec":{"podCIDR":"10.64.0.0/24","podCIDRs":["10.64.0.0/24"]}}` {
			t.Errorf("wrote %v", writes)
		}
		b.remove("a")
		b.add(node("c", "10.64.2.0/24"), node("d"), node("e"))
		b.want("d", "10.64.3.0/24")
		b.want("e", "10.64.0.0/24")
		b.touch("e", `{"metadata":{"labels":{"x":"y"}}}`)
		b.told()
		if len(b.api.Writes()) != 4 {
			t.Errorf("wrote %v", b.api.Writes())
		}
	})
}

func TestDualStack(t *testing.T) {
	o := networks("fd00:64::/48", "10.64.0.0/16")
	o.BitsIPv4, o.BitsIPv6 = 26, 56
	inBubble(t, o, nil, func(b *bench) {
		b.add(node("a"), node("b", "fd00:64:0:100::/56"), node("c"))
		b.want("a", "fd00:64::/56", "10.64.0.0/26")
		b.want("c", "fd00:64:0:200::/56", "10.64.0.64/26")
	})
	inBubble(t, networks("10.64.0.0/16", "fd00:64::/48"), nil, func(b *bench) {
		b.add(node("a"))
		b.want("a", "10.64.0.0/24", "fd00:64::/64")
	})
}

// TestExisting: what nodes have at the start is given to no other, whatever the order of their names.
func TestExisting(t *testing.T) {
	o := networks("10.64.0.0/21")
	o.Services = []netip.Prefix{prefix("10.64.4.0/23"), prefix("10.96.0.0/12"), prefix("fd00::/108")}
	existing := []informer.Object{
		node("a"), node("b"), node("x", "10.64.0.0/24"), node("y", "10.64.2.128/25"), node("z", "10.99.0.0/24"), node("zz", "fd00::/64"),
	}
	inBubble(t, o, existing, func(b *bench) {
		b.add(node("c"), node("d"))
		var got []string
		for _, name := range []string{"a", "b", "c"} {
			obj, err := b.api.Others.Get(b.Context(), at(name))
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, obj.(*corev1.Node).Spec.PodCIDR)
		}
		slices.Sort(got)
		if strings.Join(got, " ") != "10.64.1.0/24 10.64.3.0/24 10.64.6.0/24" {
			t.Errorf("given %v", got)
		}
		b.want("d", "10.64.7.0/24")
		b.want("z", "10.99.0.0/24")
		b.add(node("e"))
		b.want("e")
		b.told("CIDRNotAvailable e")
		all := b.events.Events()
		e := all[len(all)-1]
		if e.Message != "Node e status is now: CIDRNotAvailable" || e.Type != corev1.EventTypeNormal || e.Regarding.Kind != "Node" ||
			e.Regarding.UID == "" || e.Regarding.ResourceVersion != "" {
			t.Errorf("event %+v", e)
		}
	})
}

// TestExhausted: a node without a network gets that of the next one that is deleted.
func TestExhausted(t *testing.T) {
	inBubble(t, networks("10.64.0.0/23"), nil, func(b *bench) {
		b.add(node("a"), node("b"), node("c"), node("d"))
		b.told("CIDRNotAvailable c", "CIDRNotAvailable d")
		b.remove("c")
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		b.told("CIDRNotAvailable d")
		b.remove("a")
		b.want("d", "10.64.0.0/24")
		b.told()
		b.add(node("e"))
		b.told("CIDRNotAvailable e")
		b.touch("e", `{"spec":{"podCIDRs":["10.64.1.0/24"]}}`) // by somebody else
		b.remove("b")
		b.add(node("f"))
		b.told("CIDRNotAvailable f")
		b.remove("e")
		b.want("f", "10.64.1.0/24")
	})
}

// TestOneFamilyExhausted: a node that gets no network of one family does not use up the other.
func TestOneFamilyExhausted(t *testing.T) {
	inBubble(t, networks("10.64.0.0/23", "fd00::/64"), nil, func(b *bench) {
		b.add(node("a"), node("b"))
		b.want("a", "10.64.0.0/24", "fd00::/64")
		b.want("b")
		b.told("CIDRNotAvailable b")
		b.remove("b")
		b.remove("a")
		b.add(node("c", "10.64.0.0/24"), node("d"))
		b.want("d", "10.64.1.0/24", "fd00::/64")
	})
}

// TestReserved: what a node is about to get stays reserved, although another node had it and is gone.
func TestReserved(t *testing.T) {
	inBubble(t, networks("10.64.0.0/24"), nil, func(b *bench) {
		b.whenPatched(func(faults.Request) error { return errors.New("no") })
		b.add(node("a"), node("b", "10.64.0.0/24"))
		b.remove("b")
		b.add(node("c"))
		b.told("CIDRAssignmentFailed a", "CIDRNotAvailable c")
	})
}

// TestFailures: after three attempts an event tells of it; what is then assigned is what was, however often it takes.
func TestFailures(t *testing.T) {
	inBubble(t, networks("10.64.0.0/22"), nil, func(b *bench) {
		b.api.Inject(faults.Fault{Verb: faults.Patch, Times: 2, Err: errors.New("lost")})
		b.add(node("a"))
		b.want("a", "10.64.0.0/24")
		b.told()
		var tries int
		b.whenPatched(func(faults.Request) error {
			if tries++; tries > 5 {
				return nil
			}
			return apierrors.NewServerTimeout(nodes.GroupResource(), "patch", 1)
		})
		b.add(node("b"))
		b.told("CIDRAssignmentFailed b")
		time.Sleep(time.Minute)
		synctest.Wait()
		b.want("b", "10.64.1.0/24")
		b.told()
		b.add(node("c"))
		b.want("c", "10.64.2.0/24")
		if tries != 7 {
			t.Errorf("%d requests", tries)
		}
	})
}

// TestLostAnswer: an assignment of which nobody heard is repeated, not replaced.
func TestLostAnswer(t *testing.T) {
	inBubble(t, networks("10.64.0.0/22"), nil, func(b *bench) {
		b.api.Inject(faults.Fault{Verb: faults.Patch, Times: 3, Lost: true, Err: errors.New("lost")})
		b.whenPatched(func(faults.Request) error {
			b.source.Hold()
			return nil
		})
		b.add(node("a"))
		time.Sleep(time.Second)
		synctest.Wait()
		b.source.Resume()
		time.Sleep(time.Minute)
		synctest.Wait()
		b.want("a", "10.64.0.0/24")
		b.told("CIDRAssignmentFailed a")
		b.add(node("b"))
		b.want("b", "10.64.1.0/24")
	})
}

// TestOther: another program is faster; its choice stays, and the controller's is free again.
func TestOther(t *testing.T) {
	inBubble(t, networks("10.64.0.0/23"), nil, func(b *bench) {
		b.whenPatched(func(r faults.Request) error {
			if r.Target.Name == "a" {
				b.touchNow("a", `{"spec":{"podCIDRs":["10.64.1.0/24"]}}`)
			}
			return nil
		})
		b.add(node("a"))
		time.Sleep(time.Minute)
		synctest.Wait()
		b.want("a", "10.64.1.0/24")
		b.told("CIDRAssignmentFailed a")
		b.add(node("b"))
		b.want("b", "10.64.0.0/24")
	})
}

// touchNow is touch while the controller works.
func (b *bench) touchNow(name, data string) {
	patch := client.Patch{Type: types.MergePatchType, Data: []byte(data)}
	_, _ = b.api.Others.Patch(b.Context(), at(name), patch, metav1.PatchOptions{})
}

// TestGoneMeanwhile: a node that is deleted before it gets its network leaves it free, whether the API server says so or not.
func TestGoneMeanwhile(t *testing.T) {
	for name, err := range map[string]error{"not found": nil, "out of order": errors.New("lost")} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, networks("10.64.0.0/24"), nil, func(b *bench) {
				b.whenPatched(func(r faults.Request) error {
					if r.Target.Name == "a" {
						_ = b.api.Others.Delete(b.Context(), at("a"), metav1.DeleteOptions{})
						time.Sleep(time.Second) // until the cache knows
						return err
					}
					return nil
				})
				b.add(node("a"))
				time.Sleep(time.Minute)
				synctest.Wait()
				b.add(node("b"))
				b.want("b", "10.64.0.0/24")
			})
		})
	}
}

// TestShared: a network that two nodes have, and those of services, are not free when one of the nodes is deleted.
func TestShared(t *testing.T) {
	o := networks("10.64.0.0/22")
	o.Services = []netip.Prefix{prefix("10.64.1.0/24")}
	inBubble(t, o, nil, func(b *bench) {
		b.add(node("a", "10.64.0.0/23"), node("b", "10.64.0.0/24"))
		b.remove("a")
		b.add(node("c"), node("d"), node("e"))
		b.want("c", "10.64.2.0/24")
		b.want("d", "10.64.3.0/24")
		b.want("e")
		b.remove("b")
		b.want("e", "10.64.0.0/24")
	})
}

// told is a server that only remembers the last patch of each node.
type told struct {
	mu   sync.Mutex
	said map[string]string
}

func (s *told) Patch(_ context.Context, of client.Target, patch client.Patch, _ metav1.PatchOptions) (runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said[of.Name] = string(patch.Data)
	return &corev1.Node{}, nil
}

// TestReplaced: a node that was replaced while nobody looked is another one.
func TestReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, server := memory.New[*corev1.Node](), &told{said: map[string]string{}}
		in := nodeipam.Sources{Nodes: informer.New(source, informer.Options{})}
		c, err := nodeipam.New(in, server, events.Discard(), networks("10.64.0.0/23"))
		if err != nil {
			t.Fatal(err)
		}
		controllerstest.Go(t, in.Nodes, controllers.NewLoop(c, controllers.Options{}))
		for _, n := range []*corev1.Node{node("a", "10.64.0.0/24"), node("a", "10.64.1.0/24"), node("b")} {
			source.Put(n)
			synctest.Wait()
		}
		if got := server.said["b"]; !strings.Contains(got, "10.64.0.0/24") {
			t.Errorf("the other one is given %s", got)
		}
		source.Put(node("a"))
		synctest.Wait()
		if got := server.said["a"]; !strings.Contains(got, "10.64.1.0/24") {
			t.Errorf("a third one is given %s", got)
		}
	})
}

// TestBeingDeleted: a node that is going away gets nothing, but keeps what another program gives it.
func TestBeingDeleted(t *testing.T) {
	inBubble(t, networks("10.64.0.0/22"), nil, func(b *bench) {
		b.whenPatched(func(faults.Request) error { return errors.New("no") })
		n := node("a")
		n.Finalizers = []string{"example.com/x"}
		b.add(n)
		b.told("CIDRAssignmentFailed a")
		b.remove("a")
		b.whenPatched(nil)
		time.Sleep(time.Hour)
		synctest.Wait()
		b.want("a")
		b.touch("a", `{"spec":{"podCIDRs":["10.64.1.0/24"]}}`)
		b.add(node("b"))
		b.want("b", "10.64.2.0/24")
	})
}

// TestEnd: that a controller ends is no failure of a node.
func TestEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := memory.New[*corev1.Node]()
		in := nodeipam.Sources{Nodes: informer.New(source, informer.Options{})}
		controllerstest.Go(t, in.Nodes)
		source.Put(node("a"))
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var recorder controllerstest.Recorder
		c, err := nodeipam.New(in, refusing{}, &recorder, networks("10.64.0.0/22"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Reconcile(ctx, controllers.Key{Name: "a"}); !errors.Is(err, context.Canceled) || len(recorder.Events()) > 0 {
			t.Errorf("%v, events %v", err, recorder.Events())
		}
		if _, err := c.Reconcile(t.Context(), controllers.Key{Name: "unknown"}); err != nil {
			t.Error(err)
		}
	})
}

// TestNoneLeft: that there is no network for a node is an error, so that it is tried again.
func TestNoneLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, server := memory.New[*corev1.Node](), &told{said: map[string]string{}}
		in := nodeipam.Sources{Nodes: informer.New(source, informer.Options{})}
		var recorder controllerstest.Recorder
		c, err := nodeipam.New(in, server, &recorder, networks("10.64.0.0/24", "fd00::/60"))
		if err != nil {
			t.Fatal(err)
		}
		controllerstest.Go(t, in.Nodes)
		source.Put(node("a"))
		source.Put(node("b"))
		synctest.Wait()
		if _, err := c.Reconcile(t.Context(), controllers.Key{Name: "a"}); err != nil || server.said["a"] == "" {
			t.Errorf("the first: %v, given %v", err, server.said)
		}
		if _, err := c.Reconcile(t.Context(), controllers.Key{Name: "b"}); !errors.Is(err, nodeipam.ErrExhausted) || !strings.HasPrefix(err.Error(), "failed to allocate cidr from cluster cidr at idx:0: ") || server.said["b"] != "" {
			t.Errorf("the second: %v, given %v", err, server.said)
		}
		if all := recorder.Events(); len(all) != 1 || all[0].Reason != "CIDRNotAvailable" {
			t.Errorf("events %+v", all)
		}
	})
}

type refusing struct{}

func (refusing) Patch(context.Context, client.Target, client.Patch, metav1.PatchOptions) (runtime.Object, error) {
	return nil, errors.New("no")
}

// TestWrongNetworks: a network that is none, or not of the cluster's, is reported again and again, and hinders no other node.
func TestWrongNetworks(t *testing.T) {
	for text, want := range map[string]string{
		"10.65.0.0/24":           "failed to mark cidr[10.65.0.0/24] at idx [0] as occupied for node: a",
		"10.64.1.0/24 fd00::/64": "has an allocated cidr: fd00::/64 at index:1 that does not exist in cluster cidrs configuration",
		"010.064.001.000/24":     "",
		"x":                      "failed to parse node a, CIDR x",
	} {
		synctest.Test(t, func(t *testing.T) {
			source, server := memory.New[*corev1.Node](), &told{said: map[string]string{}}
			in := nodeipam.Sources{Nodes: informer.New(source, informer.Options{})}
			c, err := nodeipam.New(in, server, events.Discard(), networks("10.64.0.0/22"))
			if err != nil {
				t.Fatal(err)
			}
			source.Put(node("a", strings.Fields(text)...))
			controllerstest.Go(t, in.Nodes, controllers.NewLoop(c, controllers.Options{}))
			synctest.Wait()
			if _, err := c.Reconcile(t.Context(), controllers.Key{Name: "a"}); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", text, err)
			}
			source.Put(node("b"))
			synctest.Wait()
			source.Delete("", "a")
			synctest.Wait()
			source.Put(node("c"))
			synctest.Wait()
			if server.said["b"] == "" || server.said["c"] == "" || server.said["b"] == server.said["c"] {
				t.Errorf("%s: others are given %v", text, server.said)
			}
		})
	}
}

func TestNewRefuses(t *testing.T) {
	for name, o := range map[string]nodeipam.Options{
		"no network":          {},
		"two of one family":   networks("10.64.0.0/16", "10.65.0.0/16"),
		"three":               networks("10.64.0.0/16", "fd00::/48", "fd01::/48"),
		"too small":           networks("10.64.0.0/25"),
		"too large":           networks("fd00::/47"),
		"not a network":       {Networks: []netip.Prefix{{}}},
		"another length":      {Networks: []netip.Prefix{prefix("10.64.0.0/16")}, BitsIPv4: 15},
		"another of IPv6":     {Networks: []netip.Prefix{prefix("fd00::/64")}, BitsIPv6: 81},
		"IPv4 inside of IPv6": networks("::ffff:10.0.0.0/112"),
	} {
		if _, err := nodeipam.New(nodeipam.Sources{}, nil, events.Discard(), o); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
