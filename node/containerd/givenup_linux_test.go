package containerd_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/node/containerd/containerdtest"
)

// TestGivenUp: whatever a start that is given up leaves behind can be removed, where containerd refuses to by ending the
// sandbox's tasks. About one in fifty of such starts makes it refuse.
func TestGivenUp(t *testing.T) {
	d := containerdtest.Start(t, containerdtest.Options{})
	c := connect(t, d)
	ctx := t.Context()
	chance := rand.New(rand.NewPCG(1, 2))
	tries := 60
	if testing.Short() {
		tries = 10
	}
	var usual time.Duration
	for n := range tries {
		p := c.sandbox(ctx, t, c.config(t))
		container := c.create(ctx, t, p, &runtime.LinuxContainerSecurityContext{})
		patience := time.Minute
		if n > 0 {
			patience = usual/4 + time.Duration(chance.Int64N(int64(usual)))
		}
		short, cancel := context.WithTimeout(ctx, patience)
		began := time.Now()
		_, err := c.StartContainer(short, &runtime.StartContainerRequest{ContainerId: container})
		cancel()
		if n == 0 {
			usual = time.Since(began)
		}
		refused := c.discard(ctx, t, p)
		if refused == nil {
			continue
		}
		t.Logf("given up after %v (%v): %v", patience, err, refused)
		if err := d.EndTasks(ctx, p.sandbox); err != nil {
			t.Fatal(err)
		}
		for refused != nil { // containerd learns of it soon
			if ctx.Err() != nil {
				t.Fatal(refused)
			}
			refused = c.discard(ctx, t, p)
		}
	}
	tasks, err := d.Tasks()
	if err != nil || len(tasks) > 0 {
		t.Errorf("tasks that are left: %v, %v", tasks, err)
	}
}

// discard stops and removes a sandbox. A start that goes on behind the caller's back is waited for.
func (c client) discard(ctx context.Context, t *testing.T, p *pod) error {
	t.Helper()
	var err error
	for range 50 {
		if _, err = c.StopPodSandbox(ctx, &runtime.StopPodSandboxRequest{PodSandboxId: p.sandbox}); err == nil {
			if _, err = c.RemovePodSandbox(ctx, &runtime.RemovePodSandboxRequest{PodSandboxId: p.sandbox}); err == nil {
				return nil
			}
		}
		if strings.Contains(err.Error(), "cannot delete running task") {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
	return err
}
