package kubelet_test

import (
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/cri/simulated"
	"github.com/keelson-dev/keelson/kubelet"
	"github.com/keelson-dev/keelson/kubelet/decision"
)

// diary is a kubelet.Memory that outlives kubelets.
type diary struct {
	noAllocations
	mu    sync.Mutex
	waits map[types.UID]map[string]kubelet.Wait // of admitted pods
}

func (m *diary) Admitted(uid types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.waits[uid] != nil
}

func (m *diary) Admit(pods ...*corev1.Pod) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, pod := range pods {
		m.waits[pod.UID] = map[string]kubelet.Wait{}
	}
	return nil
}

func (m *diary) Forget(uids ...types.UID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, uid := range uids {
		delete(m.waits, uid)
	}
	return nil
}

func (m *diary) Orphans(live func(types.UID) bool) ([]types.UID, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.DeleteFunc(slices.Collect(maps.Keys(m.waits)), live), nil
}

func (m *diary) Waits(uid types.UID) map[string]kubelet.Wait {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.waits[uid])
}

func (m *diary) SetWait(uid types.UID, key string, w kubelet.Wait) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waits[uid][key] = w
	return nil
}

// TestRestartKeepsWaits: a failing container's back-off survives a restart of the kubelet.
func TestRestartKeepsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		rt := simulated.New(simulated.Options{Images: []string{"nginx"}, Program: func(simulated.Process) simulated.Program {
			return simulated.Program{Exits: true, After: time.Second, ExitCode: 1}
		}})
		defer rt.Close()
		o := kubelet.Options{Host: kubelet.Host{Memory: &diary{waits: map[types.UID]map[string]kubelet.Wait{}}}}
		n := w.run(rt, o)
		n.pods.Put(newPod("web"))
		time.Sleep(100 * time.Second) // restarts after 0, 10, 20 and 40 s; the next one waits 80
		n.stop()
		before := n.pod("web").Status.ContainerStatuses[0].RestartCount
		n = w.run(rt, o)
		defer n.stop()
		time.Sleep(30 * time.Second)
		if after := n.pod("web").Status.ContainerStatuses[0].RestartCount; after != before {
			t.Errorf("the container was restarted %d times before the kubelet was, and %d times soon after", before, after)
		}
		time.Sleep(2 * time.Minute)
		if after := n.pod("web").Status.ContainerStatuses[0].RestartCount; after != before+1 {
			t.Errorf("%d restarts when the wait is over, %d before", after, before)
		}
	})
}

// TestForgetsTheLost: pods that ended and were deleted while no kubelet was running are not remembered forever.
func TestForgetsTheLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		rt := simulated.New(simulated.Options{Images: []string{"nginx"}})
		defer rt.Close()
		memory := &diary{waits: map[types.UID]map[string]kubelet.Wait{"lost": {}}}
		n := w.run(rt, kubelet.Options{Host: kubelet.Host{Memory: memory}})
		defer n.stop()
		pod := newPod("web")
		n.pods.Put(pod)
		time.Sleep(5 * time.Minute)
		if memory.Admitted("lost") || !memory.Admitted(pod.UID) {
			t.Errorf("remembered: the lost %t, the live %t", memory.Admitted("lost"), memory.Admitted(pod.UID))
		}
	})
}

// noAllocations remembers no resources.
type noAllocations struct{}

func (noAllocations) Allocation(types.UID) (given decision.Allocation, inForce *decision.Allocation, ok bool) {
	return given, nil, false
}
func (noAllocations) Resize(*corev1.Pod) error                         { return nil }
func (noAllocations) SetInForce(types.UID, *decision.Allocation) error { return nil }
