package generate

import (
	"fmt"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// The generators of [Run] have kubectl's names.
const (
	GeneratorDeployment            = "deployment/apps.v1"
	GeneratorJob                   = "job/v1"
	GeneratorPod                   = "run-pod/v1"
	GeneratorReplicationController = "run/v1"
)

// RunOptions are the flags of kubectl run.
type RunOptions struct {
	Container Container

	Labels      string   // of the object and its pods; "run=NAME" when empty
	Annotations []string // of the pods
	Replicas    *int32   // of a Deployment; one when nil
	Expose      bool     // makes a Service of the container's port, too

	// Restart is the restart policy. Without a generator it decides the kind: Always, the default, makes a Deployment;
	// OnFailure a Job; Never a Pod.
	Restart string
	// Generator decides the kind regardless of the restart policy: one of the constants.
	Generator string
}

// Container is what the flags of kubectl run say about the container.
type Container struct {
	Image   string   // required
	Args    []string // arguments of the image's command
	Command bool     // Args are the command and its arguments, instead of arguments to the image's
	Env     []string // each "NAME=value"
	Port    int32    // that it listens on; none when 0

	ImagePullPolicy string // Always, IfNotPresent or Never; the server's default when empty
	Privileged      bool   // give it all privileges
	Stdin, TTY      bool   // as in the container's spec
	LeaveStdinOpen  bool   // keep Stdin open after the first client
}

// Run makes what kubectl run NAME makes: the object, followed by the Service if the options say Expose.
// Expose.
func Run(name string, o RunOptions) ([]runtime.Object, error) {
	plan, err := o.plan(name)
	if err != nil {
		return nil, err
	}
	var made runtime.Object
	switch plan.generator {
	case GeneratorDeployment:
		made, err = plan.deployment(o.Replicas)
	case GeneratorReplicationController:
		made, err = plan.replicationController(o.Replicas)
	case GeneratorJob:
		made, err = plan.job()
	case GeneratorPod:
		made, err = plan.pod()
	default:
		err = fmt.Errorf("generator %q not found: choose %s, %s, %s or %s", plan.generator,
			GeneratorDeployment, GeneratorJob, GeneratorPod, GeneratorReplicationController)
	}
	if err != nil {
		return nil, err
	}
	objects := []runtime.Object{made}
	if o.Expose {
		service, err := plan.service(o.Container.Port)
		if err != nil {
			return nil, err
		}
		objects = append(objects, service)
	}
	return objects, nil
}

// plan is what to run, with the flags read.
type plan struct {
	name        string
	generator   string
	restart     corev1.RestartPolicy
	given       map[string]string // labels that were asked for
	labels      map[string]string
	annotations map[string]string
	container   corev1.Container
}

func (o RunOptions) plan(name string) (*plan, error) {
	if name == "" {
		return nil, fmt.Errorf("NAME is required for run")
	}
	p := &plan{name: name, generator: o.Generator}
	var err error
	if p.restart, err = restartPolicy(o.Restart); err != nil {
		return nil, err
	}
	if p.given, err = Labels(o.Labels); err != nil {
		return nil, err
	}
	if p.labels = p.given; len(p.labels) == 0 {
		if p.labels, err = Labels("run=" + name); err != nil {
			return nil, err
		}
	}
	if p.annotations, err = Annotations(o.Annotations); err != nil {
		return nil, err
	}
	if p.container, err = o.Container.build(name); err != nil {
		return nil, err
	}
	if p.generator == "" {
		p.generator = map[corev1.RestartPolicy]string{
			corev1.RestartPolicyAlways:    GeneratorDeployment,
			corev1.RestartPolicyOnFailure: GeneratorJob,
			corev1.RestartPolicyNever:     GeneratorPod,
		}[p.restart]
	}
	scales := p.generator == GeneratorDeployment || p.generator == GeneratorReplicationController
	switch {
	case o.Expose && o.Container.Port == 0:
		return nil, fmt.Errorf("--port must be set when exposing a service")
	case o.Replicas != nil && !scales:
		return nil, fmt.Errorf("cannot use --replicas with --generator=%s", p.generator)
	case o.Replicas != nil && *o.Replicas != 1 && o.Container.Stdin:
		return nil, fmt.Errorf("-i/--stdin requires that replicas is 1, found %d", *o.Replicas)
	}
	if p.generator == GeneratorJob && p.restart == corev1.RestartPolicyAlways {
		if o.Restart != "" {
			return nil, fmt.Errorf("invalid restart policy: %s: the pods of a Job take OnFailure or Never", o.Restart)
		}
		p.restart = corev1.RestartPolicyNever
	}
	return p, nil
}

func restartPolicy(text string) (corev1.RestartPolicy, error) {
	switch policy := corev1.RestartPolicy(text); policy {
	case "":
		return corev1.RestartPolicyAlways, nil
	case corev1.RestartPolicyAlways, corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure:
		return policy, nil
	}
	return "", fmt.Errorf("invalid restart policy: %s, valid values are: Always, OnFailure, Never", text)
}

func (c Container) build(name string) (corev1.Container, error) {
	none := corev1.Container{}
	if err := Image(c.Image); err != nil {
		return none, err
	}
	if c.TTY && !c.Stdin {
		return none, fmt.Errorf("-i/--stdin is required for containers with -t/--tty=true")
	}
	env, err := Env(c.Env)
	if err != nil {
		return none, err
	}
	pull := corev1.PullPolicy(c.ImagePullPolicy)
	switch pull {
	case "", corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever:
	default:
		return none, fmt.Errorf("invalid image pull policy: %s, valid values are: Always, IfNotPresent, Never", pull)
	}
	made := corev1.Container{Name: name, Image: c.Image, Env: env, ImagePullPolicy: pull, Stdin: c.Stdin, TTY: c.TTY}
	if c.Privileged {
		made.SecurityContext = &corev1.SecurityContext{Privileged: &c.Privileged}
	}
	if c.Command {
		made.Command = c.Args
	} else {
		made.Args = c.Args
	}
	if c.Port != 0 {
		if err := checkPort(c.Port); err != nil {
			return none, err
		}
		made.Ports = []corev1.ContainerPort{{ContainerPort: c.Port}}
	}
	made.StdinOnce = c.Stdin && !c.LeaveStdinOpen
	return made, nil
}

// template is that of the pods; it sets no restart policy.
func (p *plan) template() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: maps.Clone(p.labels), Annotations: p.annotations},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{p.container}},
	}
}

func (p *plan) meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: p.name, Labels: maps.Clone(p.labels)}
}

func (p *plan) deployment(n *int32) (runtime.Object, error) {
	if err := checkName("deployment", p.name, validation.NameIsDNSSubdomain); err != nil {
		return nil, err
	}
	count, err := replicas(n)
	if err != nil {
		return nil, err
	}
	p.container.StdinOnce = false // it runs on whoever looks
	return &appsv1.Deployment{
		TypeMeta:   typeMeta(appsv1.SchemeGroupVersion, "Deployment"),
		ObjectMeta: p.meta(),
		Spec: appsv1.DeploymentSpec{
			Replicas: count,
			Selector: &metav1.LabelSelector{MatchLabels: maps.Clone(p.labels)},
			Template: p.template(),
		},
	}, nil
}

func (p *plan) replicationController(n *int32) (runtime.Object, error) {
	if err := checkName("replicationcontroller", p.name, validation.NameIsDNSSubdomain); err != nil {
		return nil, err
	}
	count, err := replicas(n)
	if err != nil {
		return nil, err
	}
	p.container.StdinOnce = false
	template := p.template()
	return &corev1.ReplicationController{
		TypeMeta:   typeMeta(corev1.SchemeGroupVersion, "ReplicationController"),
		ObjectMeta: p.meta(),
		Spec:       corev1.ReplicationControllerSpec{Replicas: count, Selector: maps.Clone(p.labels), Template: &template},
	}, nil
}

func (p *plan) job() (runtime.Object, error) {
	if err := checkName("job", p.name, jobName); err != nil {
		return nil, err
	}
	job := &batchv1.Job{
		TypeMeta:   typeMeta(batchv1.SchemeGroupVersion, "Job"),
		ObjectMeta: p.meta(),
		Spec:       batchv1.JobSpec{Template: p.template()},
	}
	job.Spec.Template.Spec.RestartPolicy = p.restart
	return job, nil
}

func (p *plan) pod() (runtime.Object, error) {
	if err := checkName("pod", p.name, validation.NameIsDNSSubdomain); err != nil {
		return nil, err
	}
	template := p.template()
	template.Name = p.name
	template.Spec.DNSPolicy, template.Spec.RestartPolicy = corev1.DNSClusterFirst, p.restart
	return &corev1.Pod{TypeMeta: typeMeta(corev1.SchemeGroupVersion, "Pod"), ObjectMeta: template.ObjectMeta, Spec: template.Spec}, nil
}

// service carries only the labels that were asked for, and selects by those that the pods have.
func (p *plan) service(port int32) (*corev1.Service, error) {
	if err := checkName("service", p.name, validation.NameIsDNSLabel); err != nil {
		return nil, err
	}
	return &corev1.Service{
		TypeMeta:   typeMeta(corev1.SchemeGroupVersion, "Service"),
		ObjectMeta: metav1.ObjectMeta{Name: p.name, Labels: maps.Clone(p.given)},
		Spec: corev1.ServiceSpec{
			Selector: maps.Clone(p.labels),
			Ports:    []corev1.ServicePort{{Port: port, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(port)}},
		},
	}, nil
}
