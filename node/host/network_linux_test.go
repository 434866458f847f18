package host_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/cni/bridge"
	"github.com/keelson-dev/keelson/node/bundled"
	"github.com/keelson-dev/keelson/node/internal/nodetest"
	"github.com/keelson-dev/keelson/node/nodetools"
)

// faulty is a CNI plugin behind the node's own that does what a file says.
type faulty struct {
	t    *testing.T
	dir  string // of the plugins
	mode string // the file
}

func newFaulty(t *testing.T) *faulty {
	t.Helper()
	dir := t.TempDir()
	f := &faulty{t: t, dir: filepath.Join(dir, "bin"), mode: filepath.Join(dir, "mode")}
	f.set("work")
	return f
}

// set makes the plugin work, fail or hang when a pod is attached, or fail when one is detached.
func (f *faulty) set(mode string) {
	f.t.Helper()
	// Whole or not at all: the plugin may be reading it.
	if err := os.WriteFile(f.mode+".new", []byte(mode), 0o600); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Rename(f.mode+".new", f.mode); err != nil {
		f.t.Fatal(err)
	}
}

// hung waits until that many pods hang in it.
func (f *faulty) hung(want int) {
	f.t.Helper()
	for end := time.Now().Add(nodetest.Limit); time.Now().Before(end); time.Sleep(10 * time.Millisecond) { // nobody tells
		if b, err := os.ReadFile(f.mode + ".hung"); err == nil && strings.Count(string(b), "\n") >= want {
			return
		}
	}
	f.t.Fatalf("there were no %d calls that hang", want)
}

// options make a node use it.
func (f *faulty) options() nodetest.Options {
	return nodetest.Options{
		Node: func(_ *bundled.Options, tools *nodetools.Tools) {
			f.install(tools.CNI)
			tools.CNI = f.dir
		},
		Started: func(n *bundled.Node) {
			config := strings.TrimRight(string(n.Bridge().Config()), "\n }]") + `}}, {"type": "faulty"}]}`
			if _, err := bridge.WriteFile(filepath.Join(n.Dir(), "cni", "net.d", "10-keelson.conflist"), []byte(config)); err != nil {
				f.t.Error(err)
			}
		},
	}
}

func (f *faulty) install(from string) {
	if _, err := os.Stat(f.dir); err == nil {
		return
	}
	script := fmt.Sprintf(`#!/bin/sh
mode=$(cat '%[1]s')
input=$(cat)
fail() { echo '{"cniVersion": "1.0.0", "code": 100, "msg": "the cable is cut"}'; exit 1; }
case "$CNI_COMMAND $mode" in
"VERSION "*) echo '{"cniVersion": "1.0.0", "supportedVersions": ["0.4.0", "1.0.0"]}' ;;
"ADD fail") fail ;;
"ADD hang") echo >> '%[1]s'.hung; exec sleep 3600 ;;
"ADD "*) echo "$input" | sed 's/.*"prevResult":\(.*\),"type":"faulty".*/\1/' ;;
"DEL fail-del") fail ;;
esac
`, f.mode)
	err := os.MkdirAll(f.dir, 0o755)
	plugins, _ := filepath.Glob(filepath.Join(from, "*"))
	for _, p := range plugins {
		if err == nil {
			err = os.Symlink(p, filepath.Join(f.dir, filepath.Base(p)))
		}
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(f.dir, "faulty"), []byte(script), 0o755)
	}
	if err != nil {
		f.t.Error(err)
	}
}

// creating fails unless a pod still has no sandbox and says so.
func creating(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	if pod.Status.Phase != corev1.PodPending || len(pod.Status.PodIPs) != 0 {
		t.Errorf("pod %s is %s with addresses %v", pod.Name, pod.Status.Phase, pod.Status.PodIPs)
	}
	for _, s := range pod.Status.ContainerStatuses {
		if s.State.Waiting == nil || s.State.Waiting.Reason != "ContainerCreating" {
			t.Errorf("container %s is %+v", s.Name, s.State)
		}
	}
	if c := nodetest.Condition(pod, corev1.PodReadyToStartContainers); c != corev1.ConditionFalse {
		t.Errorf("pod %s: PodReadyToStartContainers is %q", pod.Name, c)
	}
}

// TestNetworkFails: pods wait while their network cannot be made, say why, and start when it can.
func TestNetworkFails(t *testing.T) {
	t.Parallel()
	f := newFaulty(t)
	w := nodetest.Start(t, f.options())
	f.set("fail")
	w.Create(nodetest.Pod("waits", nodetest.Sleeper("c")))
	w.Create(nodetest.Pod("deleted", nodetest.Sleeper("c")))
	for _, name := range []string{"waits", "deleted"} {
		w.Event(name, "FailedCreatePodSandBox", "the cable is cut")
	}
	creating(t, w.Until("waits", "waiting", func(p *corev1.Pod) bool { return len(p.Status.ContainerStatuses) > 0 }))
	w.Delete("deleted")
	w.Gone("deleted")
	f.set("work")
	pod := w.Ready("waits")
	if n := pod.Status.ContainerStatuses[0].RestartCount; n != 0 {
		t.Errorf("%d restarts", n)
	}
	w.DeleteAll("waits")
}

// TestNetworkHangs: a plugin that does not return holds up the pods it is asked for, whose deletion goes through, and
// no others after it is repaired.
func TestNetworkHangs(t *testing.T) {
	t.Parallel()
	f := newFaulty(t)
	w := nodetest.Start(t, f.options())
	f.set("hang")
	for _, name := range []string{"asked", "forced", "killed"} {
		w.Create(nodetest.Pod(name, nodetest.Sleeper("c")))
	}
	for _, name := range []string{"asked", "forced", "killed"} {
		creating(t, w.Until(name, "waiting", func(p *corev1.Pod) bool { return len(p.Status.ContainerStatuses) > 0 }))
	}
	f.hung(3)
	start := time.Now()
	w.Delete("asked")
	w.Delete("forced", 0)
	w.Gone("forced")
	w.Gone("asked")
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("a pod without containers took %v to go", took)
	}
	f.set("work")
	w.Create(nodetest.Pod("next", nodetest.Sleeper("c")))
	w.Ready("next")
	w.KillContainerd() // and with it the calls that hang
	w.Event("killed", "FailedCreatePodSandBox", "Failed to create pod sandbox: ")
	w.Ready("killed")
	w.DeleteAll("killed", "next")
}

// TestNetworkCannotBeTakenBack: a pod whose network cannot be taken back stays until it can, and nothing of it is
// forgotten.
func TestNetworkCannotBeTakenBack(t *testing.T) {
	t.Parallel()
	f := newFaulty(t)
	w := nodetest.Start(t, f.options())
	w.Create(nodetest.Pod("stays", nodetest.Sleeper("c")))
	w.Ready("stays")
	f.set("fail-del")
	w.Delete("stays")
	w.Event("stays", "FailedKillPod", "the cable is cut")
	pod := w.Until("stays", "ended", func(p *corev1.Pod) bool { return p.Status.ContainerStatuses[0].State.Terminated != nil })
	if pod.DeletionTimestamp == nil || nodetest.IsReady(pod) {
		t.Errorf("the pod's status is %+v", pod.Status)
	}
	f.set("work")
	w.Gone("stays")
	w.Clean()
}
