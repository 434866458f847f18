package job_test

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/job"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/lifecycle"
)

// The controller reads from informers and writes through a client; here both are an API in memory. It ends with its
// first event.
func Example() {
	work := controllerstest.Complete(&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "work"}})
	api, err := controllerstest.New(controllerstest.Options{Objects: []informer.Object{work}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	in := job.Sources{
		Jobs: informer.New(controllerstest.Source[*batchv1.Job](api, batchv1.SchemeGroupVersion.WithResource("jobs")), informer.Options{}),
		Pods: informer.New(controllerstest.Source[*corev1.Pod](api, controllerstest.Pods()), informer.Options{}),
	}
	recorder := events.Func(func(e events.Event) {
		fmt.Println(e.Reason, e.Message)
		stop()
	})
	counting := controllers.NewLoop(job.New(in, api, recorder, job.Options{}), controllers.Options{})
	orphans := controllers.NewLoop(job.NewOrphans(in, api), controllers.Options{})

	fmt.Println(lifecycle.Group(api, in.Jobs, in.Pods, counting, orphans).Run(ctx))
	// Output:
	// SuccessfulCreate Created pod: work-00001
	// <nil>
}
