package signature_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/signature"
)

// License refuses nodes that lack the license that a pod is labelled with.
type License struct{ asked *int }

func (License) Name() string { return "License" }

func (l License) Check(pod *corev1.Pod, node *scheduler.NodeInfo) *scheduler.Refusal {
	*l.asked++
	if want := pod.Labels["license"]; want != "" && node.Node.Labels["license"] != want {
		return &scheduler.Refusal{Reasons: []string{"node(s) lacked the license"}, Unresolvable: true}
	}
	return nil
}

// Signature appends the label: no other field of the pod affects the results.
func (License) Signature(b []byte, pod *corev1.Pod) ([]byte, bool) {
	return signature.String(b, pod.Labels["license"]), true
}

// A custom predicate's results are cached like those of upstream's default profile: it is called for a node
// once for all pods with the same label.
func Example() {
	asked := 0
	planner := scheduler.NewPlanner(&scheduler.Profile{Plugins: []scheduler.Enabled{{Plugin: License{&asked}}}})
	var nodes []*corev1.Node
	for i := range 100 {
		nodes = append(nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("node-%d", i), Labels: map[string]string{"license": []string{"cad", "none"}[i%2]},
		}})
	}
	cluster := scheduler.NewSnapshot(nodes, nil)
	for i := range 1000 {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("pod-%d", i), Labels: map[string]string{"license": "cad"},
		}}
		if _, err := planner.Place(pod, cluster); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(asked)
	// Output: 100
}
