package job

import (
	"fmt"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/controllers/internal/pods"
)

// indexVariable tells containers the index of their pod.
const indexVariable = "JOB_COMPLETION_INDEX"

// longestPrefix is how much of a generated name the server takes from the prefix.
const longestPrefix = 58

// pod returns a new pod of a job, with an index or noIndex.
func (l *look) pod(index int) *corev1.Pod {
	job := l.job
	pod := pods.FromTemplate(&job.Spec.Template, job, *metav1.NewControllerRef(job, kind().GroupVersionKind))
	if !tracked(pod) {
		pod.Finalizers = append(pod.Finalizers, batchv1.JobTrackingFinalizer)
	}
	if index == noIndex {
		return pod
	}
	for i := range pod.Spec.InitContainers {
		tellIndex(&pod.Spec.InitContainers[i])
	}
	for i := range pod.Spec.Containers {
		tellIndex(&pod.Spec.Containers[i])
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Annotations[batchv1.JobCompletionIndexAnnotation] = strconv.Itoa(index)
	pod.Labels[batchv1.JobCompletionIndexAnnotation] = strconv.Itoa(index)
	pod.Spec.Hostname = fmt.Sprintf("%s-%d", job.Name, index)
	pod.GenerateName = prefix(job.Name, index)
	if job.Spec.BackoffLimitPerIndex != nil {
		l.countFailures(pod, l.waiting[index])
	}
	return pod
}

// prefix is that of the name of a pod with an index, cut so that the index remains.
func prefix(job string, index int) string {
	suffix := fmt.Sprintf("-%d-", index)
	if len(job)+len(suffix) > longestPrefix {
		job = job[:longestPrefix-len(suffix)]
	}
	return job + suffix
}

func tellIndex(c *corev1.Container) {
	for _, v := range c.Env {
		if v.Name == indexVariable {
			return
		}
	}
	c.Env = append(c.Env, corev1.EnvVar{Name: indexVariable, ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{FieldPath: fmt.Sprintf("metadata.labels['%s']", batchv1.JobCompletionIndexAnnotation)},
	}})
}

// countFailures annotates a pod with the failures of its index, of which replaced, if any, is the last.
func (l *look) countFailures(pod, replaced *corev1.Pod) {
	var counted, ignored int32
	if replaced != nil {
		counted, ignored = failures(replaced)
		if rule(l.job.Spec.PodFailurePolicy, replaced).counts() {
			counted++
		} else {
			ignored++
		}
	}
	pod.Annotations[batchv1.JobIndexFailureCountAnnotation] = strconv.Itoa(int(counted))
	if ignored > 0 {
		pod.Annotations[batchv1.JobIndexIgnoredFailureCountAnnotation] = strconv.Itoa(int(ignored))
	}
}
