package cluster_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/cluster"
)

// TestFlowControl: the default objects exist when the cluster is ready and are restored; a user's schema gets a condition that
// follows its level, and the user is told that nothing acts on it.
func TestFlowControl(t *testing.T) {
	inBubble(t, cluster.Options{}, func(t *testing.T, w *world) {
		var told warnings
		config := w.c.Config()
		config.WarningHandler = &told
		flows := clientset(t, config).FlowcontrolV1()
		levels, err := flows.PriorityLevelConfigurations().List(w.ctx, metav1.ListOptions{})
		w.check(err)
		schemas, err := flows.FlowSchemas().List(w.ctx, metav1.ListOptions{})
		w.check(err)
		if len(levels.Items) != 8 || len(schemas.Items) != 11 {
			t.Errorf("%d levels, %d schemas", len(levels.Items), len(schemas.Items))
		}
		dangling := func(name string) string {
			t.Helper()
			synctest.Wait()
			s, err := flows.FlowSchemas().Get(w.ctx, name, metav1.GetOptions{})
			w.check(err)
			for _, c := range s.Status.Conditions {
				return string(c.Status) + " " + c.Reason
			}
			return "none"
		}
		if got := dangling("probes"); got != "False Found" {
			t.Errorf("probes: %s", got)
		}
		_, err = flows.FlowSchemas().Create(w.ctx, &flowcontrolv1.FlowSchema{ObjectMeta: metav1.ObjectMeta{Name: "mine"}, Spec: flowcontrolv1.FlowSchemaSpec{
			PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: "mine"},
		}}, metav1.CreateOptions{})
		w.check(err)
		if got := told.take(); len(got) != 1 || !strings.Contains(got[0], "does not act on them") {
			t.Errorf("told %q", got)
		}
		if got := dangling("mine"); got != "True NotFound" {
			t.Errorf("mine, without its level: %s", got)
		}
		mine := levels.Items[0].DeepCopy()
		mine.ObjectMeta = metav1.ObjectMeta{Name: "mine"}
		_, err = flows.PriorityLevelConfigurations().Create(w.ctx, mine, metav1.CreateOptions{})
		w.check(err)
		if got := dangling("mine"); got != "False Found" {
			t.Errorf("mine: %s", got)
		}
		w.check(flows.FlowSchemas().Delete(w.ctx, "exempt", metav1.DeleteOptions{}))
		time.Sleep(time.Minute)
		if got := dangling("exempt"); got != "False Found" {
			t.Errorf("exempt, restored: %s", got)
		}
	})
}
