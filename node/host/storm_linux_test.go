package host_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/node/internal/nodetest"
)

// stormLasts is how long pods come and go while what runs them is killed.
const stormLasts = 45 * time.Second

// TestStorm: pods come and go at random while containerd and the kubelet are killed at random. Afterwards all that is
// wanted runs, and when nothing is wanted any more nothing is left.
func TestStorm(t *testing.T) {
	if testing.Short() {
		t.Skip("long: the run without -short has it")
	}
	w := nodetest.Start(t, nodetest.Options{})
	config(w, t)
	seed := rand.NewPCG(2026, 4)
	chance := rand.New(seed)
	var alive []string
	kills := map[string]int{}
	pods := w.Clients.CoreV1().Pods("default")
	for n, end := 0, time.Now().Add(stormLasts); time.Now().Before(end); n++ {
		switch what := chance.IntN(12); {
		case what < 6 && len(alive) < 15:
			pod := everything(w, t, fmt.Sprintf("pod-%d", n))
			if chance.IntN(2) == 0 {
				pod = nodetest.Pod(pod.Name, nodetest.Sleeper("c"))
			}
			w.Create(pod)
			alive = append(alive, pod.Name)
		case what < 9 && len(alive) > 0:
			i := chance.IntN(len(alive))
			var o metav1.DeleteOptions
			if chance.IntN(4) == 0 {
				o.GracePeriodSeconds = new(int64)
			}
			w.Check(pods.Delete(w.Context, alive[i], o))
			alive = append(alive[:i], alive[i+1:]...)
		case what == 9:
			w.KillContainerd()
			kills["containerd"]++
		case what == 10:
			w.KillKubelet()
			w.StartKubelet()
			kills["kubelet"]++
		case what == 11:
			w.KillContainerd()
			w.KillKubelet()
			w.StartKubelet()
			kills["both"]++
		}
		// The next thing happens somewhere in what this one began.
		time.Sleep(time.Duration(chance.IntN(700)) * time.Millisecond)
	}
	t.Logf("killed: %v; %d pods are to run", kills, len(alive))
	for _, name := range alive {
		pod := w.Until(name, "running", nodetest.IsReady)
		if pod.Status.PodIP == "" {
			t.Errorf("pod %s has no address", name)
		}
	}
	addresses := map[string]string{}
	for _, name := range alive {
		ip := w.Ready(name).Status.PodIP
		if other, taken := addresses[ip]; taken {
			t.Errorf("pods %s and %s have the address %s", name, other, ip)
		}
		addresses[ip] = name
	}
	w.DeleteAll(alive...)
	list, err := pods.List(w.Context, metav1.ListOptions{})
	w.Check(err)
	for _, pod := range list.Items {
		w.Gone(pod.Name)
	}
	w.Clean()
}
