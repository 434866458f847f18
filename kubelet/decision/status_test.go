package decision_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/kubelet/decision"
)

var update = flag.Bool("update", false, "write the golden files anew")

// statusScenes are the situations that golden files describe.
func statusScenes() map[string]scene {
	crash := map[string]decision.Waiting{"main": {Reason: "CrashLoopBackOff", Message: "back-off 10s restarting failed container=main pod=web_default(uid)"}}
	return map[string]scene{
		"new":              {},
		"new-init":         {inits: "setup", sandbox: "ready"},
		"pulling":          {sandbox: "ready"},
		"pull-failed":      {sandbox: "ready", waiting: map[string]decision.Waiting{"main": {Reason: "ErrImagePull", Message: "manifest unknown"}}},
		"init-running":     {inits: "setup", sandbox: "ready", containers: "setup=running"},
		"init-crashing":    {inits: "setup", sandbox: "ready", containers: "setup=1", waiting: map[string]decision.Waiting{"setup": {Reason: "CrashLoopBackOff", Message: "back-off"}}},
		"init-failed":      {policy: never, inits: "setup", sandbox: "ready", containers: "setup=1"},
		"running":          {sandbox: "ready", containers: "main=running"},
		"running-sidecar":  {inits: "helper+", sandbox: "ready", containers: "main=running helper=running"},
		"one-of-two":       {names: "main more", sandbox: "ready", containers: "main=running"},
		"not-ready":        {sandbox: "ready", containers: "main=running", change: func(p *corev1.Pod) { p.Spec.Containers[0].ReadinessProbe = &corev1.Probe{} }},
		"gated":            {sandbox: "ready", containers: "main=running", change: func(p *corev1.Pod) { p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "x/y"}} }},
		"crashing":         {sandbox: "ready", containers: "main=1", waiting: crash},
		"restarted":        {sandbox: "ready", containers: "main=running main=1"},
		"succeeded":        {policy: never, sandbox: "dead", containers: "main=0", stage: decision.Over},
		"failed":           {policy: never, sandbox: "dead", containers: "main=2", stage: decision.Over},
		"deleted-pending":  {change: func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: t0} }, stage: decision.Over},
		"host-network":     {change: func(p *corev1.Pod) { p.Spec.HostNetwork = true }},
		"resources":        {sandbox: "ready", containers: "main=running", change: withResources},
		"mounts":           {sandbox: "ready", containers: "main=running", change: withMounts},
		"deadline":         {sandbox: "ready", containers: "main=running", change: func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64) }},
		"lost-container":   {sandbox: "ready", before: wasRunning},
		"unknown":          {sandbox: "ready", containers: "main=unknown", before: wasRunning},
		"other-conditions": {sandbox: "ready", containers: "main=running", change: withDisruption},
	}
}

func withResources(p *corev1.Pod) {
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
}

func withMounts(p *corev1.Pod) {
	p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "token", MountPath: "/run/token", ReadOnly: true}}
}

func withDisruption(p *corev1.Pod) {
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI"}}
}

func TestGoldenStatuses(t *testing.T) {
	for name, c := range statusScenes() {
		in := c.build()
		in.Pod.Generation = 3
		got, err := json.MarshalIndent(decision.Decide(in).Status, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, '\n')
		path := filepath.Join("testdata", "status", name+".json")
		if *update {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Errorf("%s is now\n%s", path, got)
		}
	}
}
