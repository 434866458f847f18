package controllermanager

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/component"
	"github.com/keelson-dev/keelson/controllers/job"
	"github.com/keelson-dev/keelson/controllers/ttlafterfinished"
	"github.com/keelson-dev/keelson/lifecycle"
)

func newJob(p *component.Parts) (lifecycle.Runnable, error) {
	in := job.Sources{
		Jobs: component.Informer[*batchv1.Job](p.Informers, batchv1.SchemeGroupVersion.WithResource("jobs")),
		Pods: component.Informer[*corev1.Pod](p.Informers, corev1.SchemeGroupVersion.WithResource("pods")),
	}
	if err := p.Informers.Err(); err != nil {
		return nil, err
	}
	o := job.Options{}
	if p.Pace.InOrder() {
		o.Parallel = 1
	}
	return lifecycle.Group(
		p.Loop(job.New(in, p.Client, p.Recorder, o)),
		p.Loop(job.NewOrphans(in, p.Client)),
	), nil
}

func newTTLAfterFinished(p *component.Parts) (lifecycle.Runnable, error) {
	jobs := component.Informer[*batchv1.Job](p.Informers, batchv1.SchemeGroupVersion.WithResource("jobs"))
	if err := p.Informers.Err(); err != nil {
		return nil, err
	}
	return p.Loop(ttlafterfinished.New(jobs, p.Client)), nil
}
