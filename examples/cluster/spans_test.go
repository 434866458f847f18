package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/internal/otlptest"
)

// TestSpans: requests and what the store does for them arrive at a collector, at the latest when the program ends.
func TestSpans(t *testing.T) {
	c, dir := otlptest.Start(t), t.TempDir()
	file := filepath.Join(dir, "tracing.yaml")
	text := "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\nsamplingRatePerMillion: 1000000\nendpoint: " + c.Endpoint + "\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	process := started(t, program(t), filepath.Join(dir, "data"), "--storage", "memory", "--disable", "scheduler,controllers,nodes", "--tracing-config-file", file)
	config, api := clients(t, process)
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "traced"}}
	if _, err := api.CoreV1().ConfigMaps("default").Create(t.Context(), m, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := process.Interrupt(); err != nil {
		t.Fatal(err)
	}
	all := c.Spans()
	const name = "POST /api/v1/namespaces/{:namespace}/configmaps"
	i := slices.IndexFunc(all, func(s otlptest.Span) bool { return s.Name == name })
	if i < 0 || all[i].Service != "apiserver" || all[i].Instance == "" {
		t.Fatalf("of %d spans none is %s of %s", len(all), name, config.Host)
	}
	if !slices.ContainsFunc(all, func(s otlptest.Span) bool { return s.Name == "Create storage" && s.Parent == all[i].ID }) {
		t.Errorf("the store has no span below %+v", all[i])
	}
}
