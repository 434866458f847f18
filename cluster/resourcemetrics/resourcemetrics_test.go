package resourcemetrics_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cluster/resourcemetrics"
)

// usage is the part of the answers that the tests look at.
type usage struct {
	Metadata   metav1.ObjectMeta
	Usage      map[string]string
	Containers []struct{ Usage map[string]string }
}

func read(t *testing.T, cs kubernetes.Interface, path, selector string) []usage {
	t.Helper()
	data, err := cs.CoreV1().RESTClient().Get().AbsPath("/apis/metrics.k8s.io/v1beta1/"+path).Param("labelSelector", selector).DoRaw(t.Context())
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	var list struct{ Items []usage }
	if err := json.Unmarshal(data, &list); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// TestServes: what nodes and pods use is what the containers' programs say, at that time.
func TestServes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &traffic{began: time.Now(), pods: 1}
		cs := start(t, options(l, resourcemetrics.Options{}))
		if _, err := cs.AppsV1().Deployments("default").Create(t.Context(), web(), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		pods := read(t, cs, "namespaces/default/pods", "app=web")
		if len(pods) != 1 || pods[0].Metadata.Labels["app"] != "web" || len(pods[0].Containers) != 1 ||
			pods[0].Containers[0].Usage["cpu"] != "200m" || pods[0].Containers[0].Usage["memory"] != "64Mi" {
			t.Errorf("pods %+v", pods)
		}
		if none := read(t, cs, "pods", "app=other"); len(none) > 0 {
			t.Errorf("other pods %+v", none)
		}
		time.Sleep(10 * time.Second) // the rate of a node follows from two readings
		var names []string
		for _, n := range read(t, cs, "nodes", "") {
			names = append(names, n.Metadata.Name)
		}
		if !slices.Equal(names, []string{"node-0", "node-1"}) {
			t.Errorf("nodes %v", names)
		}
		time.Sleep(hour)
		if pods := read(t, cs, "pods", ""); len(pods) != 1 || pods[0].Containers[0].Usage["cpu"] != "600m" {
			t.Errorf("an hour later: pods %+v", pods)
		}
	})
}

// TestSilentNodes: what a node does not tell is missing, and does not hold up the answer.
func TestSilentNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := options(&traffic{began: time.Now()}, resourcemetrics.Options{Age: time.Nanosecond, Timeout: time.Second})
		c, err := cluster.Start(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}()
		if err := c.WaitNodes(t.Context()); err != nil {
			t.Fatal(err)
		}
		cs, err := kubernetes.NewForConfig(c.Config())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		node, err := c.Node("node-0")
		if err != nil {
			t.Fatal(err)
		}
		read(t, cs, "nodes", "")
		time.Sleep(10 * time.Second)
		if all := read(t, cs, "nodes", ""); len(all) != 2 {
			t.Errorf("nodes %+v", all)
		}
		node.Stop()
		time.Sleep(10 * time.Second)
		asked := time.Now()
		if all := read(t, cs, "nodes", ""); len(all) != 1 || all[0].Metadata.Name != "node-1" || time.Since(asked) > 2*time.Second {
			t.Errorf("nodes %+v after %s", all, time.Since(asked))
		}
	})
}

func ExampleExtension() {
	ctx := context.Background()
	c, err := cluster.Start(ctx, cluster.Options{
		Nodes:      cluster.Nodes{Count: 1},
		Extensions: []cluster.Extension{resourcemetrics.Extension(resourcemetrics.Options{})},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = c.Close() }()
	cs, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		fmt.Println(err)
		return
	}
	resources, err := cs.Discovery().ServerResourcesForGroupVersion("metrics.k8s.io/v1beta1")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range resources.APIResources {
		fmt.Println(r.Name, r.Kind)
	}
	// Output:
	// nodes NodeMetrics
	// pods PodMetrics
}
