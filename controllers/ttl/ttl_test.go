package ttl_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/ttl"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/memory"
	"github.com/keelson-dev/keelson/lifecycle"
)

var nodes = corev1.SchemeGroupVersion.WithResource("nodes")

const annotation = "node.alpha.kubernetes.io/ttl"

// bench is a running controller with its API, in a bubble.
type bench struct {
	*testing.T
	api   *controllerstest.API
	count int
}

func inBubble(t *testing.T, test func(*bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, api: controllerstest.Start(t, controllerstest.Options{})}
		detect := informer.Options{DetectMutations: func(err error) { t.Error(err) }}
		in := ttl.Sources{Nodes: informer.New(controllerstest.Source[*corev1.Node](b.api, nodes), detect)}
		c := ttl.New(in, b.api)
		if c.Name() != "ttl-controller" {
			t.Errorf("named %s", c.Name())
		}
		controllerstest.Go(t, in.Nodes, controllers.NewLoop(c, controllers.Options{}))
		synctest.Wait()
		test(b)
	})
}

func at(i int) client.Target { return client.Target{Resource: nodes, Name: fmt.Sprintf("n%04d", i)} }

// resize creates or deletes nodes, the last ones first, until there are so many.
func (b *bench) resize(count int) {
	b.Helper()
	for ; b.count < count; b.count++ {
		controllerstest.Add(b, b.api, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: at(b.count).Name}})
	}
	for ; b.count > count; b.count-- {
		if err := b.api.Others.Delete(b.Context(), at(b.count-1), metav1.DeleteOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	synctest.Wait()
}

func (b *bench) patch(i int, data string) {
	b.Helper()
	patch := client.Patch{Type: types.MergePatchType, Data: []byte(data)}
	if _, err := b.api.Others.Patch(b.Context(), at(i), patch, metav1.PatchOptions{}); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

// want compares the annotation of a node.
func (b *bench) want(i int, value string) {
	b.Helper()
	obj, err := b.api.Others.Get(b.Context(), at(i))
	if err != nil {
		b.Fatal(err)
	}
	if got := obj.(*corev1.Node).Annotations[annotation]; got != value {
		b.Errorf("with %d nodes, node %d has %q, want %q", b.count, i, got, value)
	}
}

// told is a server that only remembers what the last patch of each node says.
type told struct {
	mu     sync.Mutex
	values map[string]string
}

func (s *told) Patch(_ context.Context, of client.Target, patch client.Patch, _ metav1.PatchOptions) (runtime.Object, error) {
	var node corev1.Node
	if err := json.Unmarshal(patch.Data, &node); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values[of.Name] = node.Annotations[annotation]
	return &node, nil
}

func (s *told) of(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.values[name]
}

// TestSizes: what a node has once it changes depends on the number of nodes, and on which side it was reached from.
func TestSizes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, server := memory.New[*corev1.Node](), &told{values: map[string]string{}}
		in := ttl.Sources{Nodes: informer.New(source, informer.Options{})}
		controllerstest.Go(t, in.Nodes, controllers.NewLoop(ttl.New(in, server), controllers.Options{}))
		synctest.Wait()
		put := func(i, step int) {
			source.Put(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: at(i).Name, Labels: map[string]string{"step": fmt.Sprint(step)}}})
		}
		count := 0
		for i, step := range []struct {
			count int
			want  string
		}{
			{1, "0"}, {100, "0"}, {101, "15"}, {90, "15"}, {89, "0"}, {100, "0"},
			{500, "15"}, {501, "30"}, {450, "30"}, {449, "15"},
			{1000, "30"}, {1001, "60"}, {900, "60"}, {899, "30"},
			{2000, "60"}, {2001, "300"}, {1800, "300"}, {1799, "60"},
		} {
			for ; count < step.count; count++ {
				put(count, i)
			}
			for ; count > step.count; count-- {
				source.Delete("", at(count-1).Name)
			}
			synctest.Wait()
			put(0, i)
			synctest.Wait()
			if got := server.of(at(0).Name); got != step.want {
				t.Errorf("with %d nodes: %q, want %q", count, got, step.want)
			}
		}
	})
}

// TestAnnotation: other nodes keep what they have until they change; the annotation is restored if it is lost or changed.
func TestAnnotation(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.resize(100)
		b.resize(101)
		b.want(50, "0")
		b.want(100, "15")
		b.patch(50, `{"metadata":{"labels":{"a":"b"}}}`)
		b.want(50, "15")
		for _, value := range []string{`null`, `"7"`, `"x"`} {
			b.patch(50, `{"metadata":{"annotations":{"other":"x","`+annotation+`":`+value+`}}}`)
			b.want(50, "15")
		}
		b.api.Reset()
		b.patch(50, `{"metadata":{"annotations":{"other":"y"}}}`)
		if writes := b.api.Writes(); len(writes) > 0 {
			b.Errorf("wrote %v", writes)
		}
		b.patch(50, `{"metadata":{"annotations":{"`+annotation+`":"1"}}}`)
		writes := b.api.Writes()
		if len(writes) != 1 || writes[0].String() != "patch nodes n0050" || string(writes[0].Patch) != `{"metadata":{"annotations":{"node.alpha.kubernetes.io/ttl":"15"}}}` {
			b.Errorf("wrote %v", writes)
		}
	})
}

// TestRetry: a failed patch is tried again, unless the node is gone.
func TestRetry(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.api.Inject(faults.Fault{Verb: faults.Patch, Err: errors.New("lost")})
		b.resize(1)
		b.want(0, "")
		time.Sleep(time.Second)
		synctest.Wait()
		b.want(0, "0")
		b.resize(0)
		b.api.Reset()
		time.Sleep(time.Hour)
		if writes := b.api.Writes(); len(writes) > 0 {
			b.Errorf("wrote %v", writes)
		}
	})
}

// TestNoNodes: a cluster may lose all of its nodes, also before it is their turn.
func TestNoNodes(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.resize(1)
		b.want(0, "0")
		b.resize(0)
		b.resize(1)
		b.want(0, "0")
	})
	synctest.Test(t, func(t *testing.T) {
		api := controllerstest.Start(t, controllerstest.Options{})
		in := ttl.Sources{Nodes: informer.New(controllerstest.Source[*corev1.Node](api, nodes), informer.Options{})}
		controllerstest.Go(t, in.Nodes)
		synctest.Wait()
		if _, err := ttl.New(in, api).Reconcile(t.Context(), controllers.Key{Name: "gone"}); err != nil || len(api.Writes()) > 0 {
			t.Errorf("%v, %v", err, api.Writes())
		}
	})
}

// A node of a small cluster is told to always ask. The API and the cache of it are in memory.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	api, err := controllerstest.New(controllerstest.Options{Objects: []informer.Object{node}, Before: func(r faults.Request) error {
		if r.Verb == faults.Patch {
			fmt.Println(r, string(r.Patch))
			stop()
		}
		return nil
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	in := ttl.Sources{Nodes: informer.New(controllerstest.Source[*corev1.Node](api, nodes), informer.Options{})}
	fmt.Println(lifecycle.Group(api, in.Nodes, controllers.NewLoop(ttl.New(in, api), controllers.Options{})).Run(ctx))
	// Output:
	// patch nodes n1 {"metadata":{"annotations":{"node.alpha.kubernetes.io/ttl":"0"}}}
	// <nil>
}
