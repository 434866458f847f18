package job

import (
	"reflect"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/controllers"
)

// The pure parts, for tables.
var (
	FinishedAt = finishedAt
	Prefix     = prefix
)

// Parsed is a list of indexes as it is read, with how many they are and the first n outside.
func Parsed(text string, completions, n int) (again string, count int, outside []int) {
	x := parseIndexes(text, completions)
	return x.String(), x.count(), x.firstOutside(n, completions)
}

// Union is the union of two lists, and the number of indexes in both.
func Union(a, b string) (string, int) {
	x, y := parseIndexes(a, 1000), parseIndexes(b, 1000)
	return x.with(y).String(), x.common(y)
}

// Has reports whether a list has an index.
func Has(text string, index int) bool { return parseIndexes(text, 1000).has(index) }

// Rule is what a failure policy says about a pod.
func Rule(p *batchv1.PodFailurePolicy, pod *corev1.Pod) (action batchv1.PodFailurePolicyAction, message string, counts bool) {
	r := rule(p, pod)
	return r.action, r.message, r.counts()
}

// Succeeds is why a success policy is fulfilled.
func Succeeds(p *batchv1.SuccessPolicy, done string, completions int) string {
	return succeeds(p, parseIndexes(done, completions), completions)
}

// After is a record after pods ended, and how long to wait then.
func After(failures int32, last time.Time, succeeded, failed []*corev1.Pod, now time.Time) (int32, time.Duration) {
	r := record{failures, last}.after(succeeded, failed)
	return r.failures, r.wait(now)
}

// Surplus is which active pods are deleted first.
func Surplus(j *batchv1.Job, active []*corev1.Pod, n int) []*corev1.Pod {
	return (&look{job: j, active: active}).surplus(n)
}

// Record returns the failures in a row that the controller remembers of a job.
func (c *Controller) Record(k controllers.Key) int32 { return c.records.get(k).failures }

// Kept returns of how many jobs and pods the controller remembers something, by what it is.
func (c *Controller) Kept() map[string]int {
	all := map[string]int{}
	for what, of := range map[string]reflect.Value{
		"records": reflect.ValueOf(c.records).Elem().FieldByName("jobs"), "expected": reflect.ValueOf(c.expected).Elem().FieldByName("owners"),
		"written": reflect.ValueOf(c.written).Elem().FieldByName("written"), "pods": reflect.ValueOf(c.writtenPods).Elem().FieldByName("written"),
	} {
		if n := of.Len(); n > 0 {
			all[what] = n
		}
	}
	return all
}

// Remember has the controller remember something of a job, as if it had looked at it when it went, or finished.
func (c *Controller) Remember(job *batchv1.Job) {
	c.records.set(controllers.KeyOf(job), record{failures: 1})
	c.written.Wrote(job, job.UID)
	c.expected.Creations(controllers.KeyOf(job), 1)
}
