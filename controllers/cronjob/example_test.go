package cronjob_test

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/cronjob"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/lifecycle"
)

// The controller reads from informers and writes through a client; here both are an API in
// memory. It ends with the first job.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	tick := &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Name: "tick"},
		Spec: batchv1.CronJobSpec{Schedule: "@every 1s", JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "tick", Image: "busybox"}},
			}},
		}}},
	}
	api, err := controllerstest.New(controllerstest.Options{Objects: []informer.Object{tick}, Before: func(r faults.Request) error {
		if r.Verb == faults.Create {
			fmt.Println("create", r.Target.Resource.Resource)
			stop()
		}
		return nil
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	in := cronjob.Sources{
		CronJobs: informer.New(controllerstest.Source[*batchv1.CronJob](api, batchv1.SchemeGroupVersion.WithResource("cronjobs")), informer.Options{}),
		Jobs:     informer.New(controllerstest.Source[*batchv1.Job](api, batchv1.SchemeGroupVersion.WithResource("jobs")), informer.Options{}),
	}
	loop := controllers.NewLoop(cronjob.New(in, api, events.Discard()), controllers.Options{})

	fmt.Println(lifecycle.Group(api, in.CronJobs, in.Jobs, loop).Run(ctx))
	// Output:
	// create jobs
	// <nil>
}
