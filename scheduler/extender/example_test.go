package extender_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/extender"
)

func Example() {
	program := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var question struct{ NodeNames []string }
		_ = json.NewDecoder(r.Body).Decode(&question)
		fmt.Printf("%s: which of %v?\n", r.URL.Path, question.NodeNames)
		_ = json.NewEncoder(w).Encode(map[string]any{"NodeNames": []string{"b"}, "FailedNodes": map[string]string{"a": "node(s) were too loud"}})
	}))
	defer program.Close()
	e := extender.New(extender.Config{URL: program.URL, Filter: "filter", NodeCacheCapable: true})
	defer e.CloseIdleConnections()

	profile := scheduler.Profile{Plugins: []scheduler.Enabled{{Plugin: e, Weight: e.Weight()}}}
	node := func(name string) *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }
	d := profile.Schedule(&corev1.Pod{}, scheduler.NewSnapshot([]*corev1.Node{node("a"), node("b")}, nil))
	fmt.Println(d.Node, d.Verdicts[0].Refusal)
	// Output:
	// /filter: which of [a b]?
	// b node(s) were too loud
}
