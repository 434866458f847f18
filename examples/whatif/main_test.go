package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const nodes = `
{apiVersion: v1, kind: Node, metadata: {name: a}, status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}}
---
{apiVersion: v1, kind: Node, metadata: {name: b}, status: {allocatable: {cpu: "2", memory: 4Gi, pods: "10"}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop}, spec: {nodeName: b, priority: 5, containers: [{name: c, resources: {requests: {cpu: "2"}}}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: batch, namespace: shop}, spec: {nodeName: a, containers: [{name: c, resources: {requests: {cpu: "3"}}}]}}
`

const more = `
{apiVersion: v1, kind: Pod, metadata: {name: big, namespace: shop}, spec: {containers: [{name: c, resources: {requests: {cpu: "3"}}}]}}
`

func TestQuestions(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	f := "-f=" + file("nodes.yaml", nodes)
	pod := file("pod.yaml", `{apiVersion: v1, kind: Pod, metadata: {name: small}, spec: {containers: [{name: c, resources: {requests: {cpu: 500m}}}]}}`)
	config := file("config.yaml", "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: [{schedulerName: other}]\n")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{f, "fits", pod}, "2 more of default/small fit\n  2 on a\n  then: 0/2 nodes are available: 2 Insufficient cpu.\n"},
		{[]string{f, "--most=1", "fits", pod}, "1 more of default/small fit\n  1 on a\n"},
		{[]string{f, "--config=" + config, "fits", pod}, "0 more of default/small fit\n  then: no profile of this scheduler name: \"default-scheduler\"\n"},
		{[]string{f, "without", "b"}, "without 1 nodes, 1 pods move, 1 find no node, 0 go with their nodes\n" +
			"  shop/web moves from b to a\n    and preempts shop/batch\n" +
			"  shop/batch from a: 0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.\n"},
		{[]string{f, "-f=" + file("more.yaml", more), "missing"}, "1 pods are pending\n" +
			"  1 nodes like a (cpu 4, memory 8Gi) leave 0 pods pending\n" +
			"  0 nodes like b (cpu 2, memory 4Gi) leave 1 pods pending\n" +
			"    shop/big: 0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling.\n"},
	} {
		var out strings.Builder
		if err := run(t.Context(), c.args, &out); err != nil {
			t.Errorf("%s: %v", c.args, err)
		}
		if diff := cmp.Diff(c.want, out.String()); diff != "" {
			t.Errorf("%s (-want +got)\n%s", c.args, diff)
		}
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "what?"},
		{[]string{f, "why"}, "is no question"},
		{[]string{f, "fits"}, "is no question"},
		{[]string{f, "fits", f[3:]}, "has 0 pods without a node, not one"},
		{[]string{f, "fits", dir + "/none"}, "no such file"},
		{[]string{f, "fits", file("node.yaml", strings.Split(nodes, "---")[0])}, "has 0 pods without a node, not one"},
		{[]string{f, "without", "x"}, `no such node: "x"`},
		{[]string{"-f=" + dir + "/none", "missing"}, "no such file"},
		{[]string{f, f, "missing"}, "nodes.yaml: document 1: two objects *v1.Node"},
		{[]string{f, "--config=" + dir + "/none", "missing"}, "no such file"},
		{[]string{"--kubeconfig=" + dir + "/none", "missing"}, "none"},
		{[]string{"--what"}, "unknown flag"},
	} {
		if err := run(t.Context(), c.args, &strings.Builder{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", c.args, err, c.want)
		}
	}
}
