package kubelet_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/simulated"
	"github.com/keelson-dev/keelson/kubelet"
)

// TestRequestsThatHang: a request that the server does not answer is given up after ten seconds, and tried again as
// after any other failure.
func TestRequestsThatHang(t *testing.T) {
	for request, want := range map[string]string{
		"create nodes":       "0s 10.1s 20.3s 30.7s 41.5s 53.1s 66.3s",
		"get leases":         "0s 20s 40s 60s",
		"create leases":      "0s 20s 40s 60s",
		"update leases":      "10s 30s 50s 70s 80s 90s",
		"patch nodes/status": "10s 20s 30s 40s 50s 70s",
		"patch pods/status":  "0s 11s 23s 37s 55s 81s",
		"delete pods":        "2s 13s 25s 39s 57s 83s",
	} {
		t.Run(request, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				rt := simulated.New(simulated.Options{})
				defer rt.Close()
				times := w.breaks(request, func() error {
					if time.Since(w.start) < time.Minute {
						return errHangs
					}
					return nil
				})
				n := w.run(rt, kubelet.Options{})
				n.pods.Put(newPod("web"))
				n.after(time.Second)
				rt.SetStatus(cri.RuntimeStatus{Runtime: cri.Condition{Reason: "Broken"}, Network: cri.Condition{Ready: true}})
				n.after(time.Second)
				n.remove("web", 30)
				n.after(90 * time.Second)
				expectTimes(t, request, times(), want)
				if _, there := n.pods.Get("default", "web"); there {
					t.Error("the pod is still there")
				}
				if got := conditions(n.node())[3]; got != "Ready=False KubeletNotReady: container runtime not ready: RuntimeReady=false reason:Broken message:" {
					t.Errorf("the node is %s", got)
				}
				n.stop()
			})
		})
	}
}
