package cluster_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/cluster"
)

// TestFlowControl: the default objects exist when the cluster is ready and are restored; a user's schema gets a condition that
// follows its level, and requests are classified by it.
func TestFlowControl(t *testing.T) {
	inBubble(t, cluster.Options{}, func(t *testing.T, w *world) {
		flows := clientset(t, w.c.Config()).FlowcontrolV1()
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
		classified := func() (schema, level string) {
			synctest.Wait()
			answer := httptest.NewRecorder()
			w.c.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/version", nil))
			return answer.Header().Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID),
				answer.Header().Get(flowcontrolv1.ResponseHeaderMatchedPriorityLevelConfigurationUID)
		}
		own := &flowcontrolv1.FlowSchema{ObjectMeta: metav1.ObjectMeta{Name: "mine"}, Spec: flowcontrolv1.FlowSchemaSpec{
			PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: "mine"}, MatchingPrecedence: 10,
			Rules: []flowcontrolv1.PolicyRulesWithSubjects{{
				Subjects:         []flowcontrolv1.Subject{{Kind: flowcontrolv1.SubjectKindUser, User: &flowcontrolv1.UserSubject{Name: "system:anonymous"}}},
				NonResourceRules: []flowcontrolv1.NonResourcePolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/version"}}},
			}},
		}}
		own, err = flows.FlowSchemas().Create(w.ctx, own, metav1.CreateOptions{})
		w.check(err)
		if schema, _ := classified(); schema == "" || schema == string(own.UID) {
			t.Errorf("without its level, %q counts", schema)
		}
		if got := dangling("mine"); got != "True NotFound" {
			t.Errorf("mine, without its level: %s", got)
		}
		mine := levels.Items[0].DeepCopy()
		mine.ObjectMeta = metav1.ObjectMeta{Name: "mine"}
		mine, err = flows.PriorityLevelConfigurations().Create(w.ctx, mine, metav1.CreateOptions{})
		w.check(err)
		if schema, level := classified(); schema != string(own.UID) || level != string(mine.UID) {
			t.Errorf("classified as %q, %q; want %q, %q", schema, level, own.UID, mine.UID)
		}
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
