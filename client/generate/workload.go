package generate

import (
	"fmt"
	"maps"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/ptr"
)

// DeploymentOptions are the flags of kubectl create deployment.
type DeploymentOptions struct {
	Images   []string // one container each; required
	Replicas *int32   // one when nil
	Port     int32    // that the first container listens on; none when 0
	Command  []string // of the container; only with one image

	// Suffix makes container names unique if characters of images had to be replaced; five random characters when nil.
	Suffix func() string
}

// Deployment makes what kubectl create deployment NAME makes: labelled app=NAME, the containers
// named after their images.
func Deployment(name string, o DeploymentOptions) (*appsv1.Deployment, error) {
	if err := checkName("deployment", name, validation.NameIsDNSSubdomain); err != nil {
		return nil, err
	}
	labels, err := Labels("app=" + name) // a name may be too long for a label
	if err != nil {
		return nil, err
	}
	containers, err := containers(o)
	if err != nil {
		return nil, err
	}
	replicas, err := replicas(o.Replicas)
	if err != nil {
		return nil, err
	}
	return &appsv1.Deployment{
		TypeMeta:   typeMeta(appsv1.SchemeGroupVersion, "Deployment"),
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: replicas,
			Selector: &metav1.LabelSelector{MatchLabels: maps.Clone(labels)},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: maps.Clone(labels)},
				Spec:       corev1.PodSpec{Containers: containers},
			},
		},
	}, nil
}

func replicas(n *int32) (*int32, error) {
	if n == nil {
		return ptr.To[int32](1), nil
	}
	if *n < 0 {
		return nil, fmt.Errorf("invalid number of replicas %d: want 0 or more", *n)
	}
	return ptr.To(*n), nil
}

func containers(o DeploymentOptions) ([]corev1.Container, error) {
	switch {
	case len(o.Images) == 0:
		return nil, fmt.Errorf("--image is required")
	case len(o.Images) > 1 && len(o.Command) > 0:
		return nil, fmt.Errorf("cannot specify multiple --image options and command")
	}
	suffix := o.Suffix
	if suffix == nil {
		suffix = func() string { return rand.String(5) }
	}
	var all []corev1.Container
	for _, image := range o.Images {
		if err := Image(image); err != nil {
			return nil, err
		}
		all = append(all, corev1.Container{Name: containerName(image, suffix), Image: image, Command: o.Command})
	}
	if o.Port != 0 {
		if err := checkPort(o.Port); err != nil {
			return nil, err
		}
		all[0].Ports = []corev1.ContainerPort{{ContainerPort: o.Port}}
	}
	return all, nil
}

// containerName is the last part of an image's path, without tag and digest.
func containerName(image string, suffix func() string) string {
	name := image[strings.LastIndex(image, "/")+1:]
	name, _, _ = strings.Cut(name, ":")
	name, _, _ = strings.Cut(name, "@")
	if strings.ContainsAny(name, "_.") {
		name = strings.NewReplacer("_", "-", ".", "-").Replace(name) + "-" + suffix()
	}
	return name
}

// JobOptions are the flags of kubectl create job.
type JobOptions struct {
	Image   string           // required without From
	Command []string         // of the container
	From    *batchv1.CronJob // run its job now, instead of Image
}

// Job makes what kubectl create job NAME makes.
func Job(name string, o JobOptions) (*batchv1.Job, error) {
	if err := checkName("job", name, jobName); err != nil {
		return nil, err
	}
	switch {
	case (o.Image == "") == (o.From == nil):
		return nil, fmt.Errorf("either --image or --from must be specified")
	case len(o.Command) > 0 && o.From != nil:
		return nil, fmt.Errorf("cannot specify --from and command")
	case o.From != nil:
		return jobFrom(name, o.From), nil
	}
	if err := Image(o.Image); err != nil {
		return nil, err
	}
	return &batchv1.Job{
		TypeMeta:   typeMeta(batchv1.SchemeGroupVersion, "Job"),
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       jobSpec(name, o.Image, o.Command, corev1.RestartPolicyNever),
	}, nil
}

func jobSpec(name, image string, command []string, restart corev1.RestartPolicy) batchv1.JobSpec {
	return batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		Containers:    []corev1.Container{{Name: name, Image: image, Command: command}},
		RestartPolicy: restart,
	}}}
}

func jobFrom(name string, c *batchv1.CronJob) *batchv1.Job {
	template := c.Spec.JobTemplate.DeepCopy()
	annotations := map[string]string{"cronjob.kubernetes.io/instantiate": "manual"}
	maps.Copy(annotations, template.Annotations)
	return &batchv1.Job{
		TypeMeta: typeMeta(batchv1.SchemeGroupVersion, "Job"),
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Annotations: annotations, Labels: template.Labels,
			// It does not block its owner's deletion: that requires a permission which creators of jobs may lack.
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "CronJob", Name: c.Name, UID: c.UID, Controller: ptr.To(true),
			}},
		},
		Spec: template.Spec,
	}
}

// CronJobOptions are the flags of kubectl create cronjob.
type CronJobOptions struct {
	Image    string   // required
	Schedule string   // in cron's syntax; required
	Command  []string // of the container
	Restart  string   // OnFailure, which is the default, or Never
}

// CronJob makes what kubectl create cronjob NAME makes.
func CronJob(name string, o CronJobOptions) (*batchv1.CronJob, error) {
	if err := checkName("cronjob", name, cronJobName); err != nil {
		return nil, err
	}
	if err := Image(o.Image); err != nil {
		return nil, err
	}
	if o.Schedule == "" {
		return nil, fmt.Errorf("--schedule is required")
	}
	restart := corev1.RestartPolicy(o.Restart)
	switch restart {
	case "":
		restart = corev1.RestartPolicyOnFailure
	case corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever:
	default:
		return nil, fmt.Errorf("invalid restart policy: %s, valid values are: OnFailure, Never", o.Restart)
	}
	return &batchv1.CronJob{
		TypeMeta:   typeMeta(batchv1.SchemeGroupVersion, "CronJob"),
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: batchv1.CronJobSpec{
			Schedule: o.Schedule,
			JobTemplate: batchv1.JobTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec:       jobSpec(name, o.Image, o.Command, restart),
			},
		},
	}, nil
}
