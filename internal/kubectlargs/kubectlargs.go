package kubectlargs

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/keelson-dev/keelson/client/generate"
	"github.com/keelson-dev/keelson/internal/boundedyaml"
)

// maker makes the objects of a parsed command; rest is what followed "--".
type maker func(name string, rest []string) ([]runtime.Object, error)

// Objects makes the objects of a command line without the leading "kubectl".
func Objects(args []string) ([]runtime.Object, error) {
	flags := pflag.NewFlagSet("kubectl", pflag.ContinueOnError)
	namespace := flags.StringP("namespace", "n", "", "")
	record := flags.Bool("record", false, "")
	for _, ignored := range []string{"dry-run", "output"} {
		flags.String(ignored, "", "")
	}
	words, create, err := find(args, flags)
	if err != nil {
		return nil, err
	}
	given := "" // as kubectl records flags
	err = flags.ParseAll(args[words:], func(f *pflag.Flag, value string) error {
		given += " --" + f.Name + "=" + value
		return flags.Set(f.Name, value)
	})
	if err != nil {
		return nil, err
	}
	names, rest := flags.Args(), []string(nil)
	if at := flags.ArgsLenAtDash(); at >= 0 {
		names, rest = names[:at], names[at:]
	}
	if args[0] == "run" && len(names) > 1 {
		names, rest = names[:1], append(names[1:], rest...)
	}
	name := ""
	if len(names) > 0 {
		name = names[0]
	}
	objects, err := create(name, rest)
	if err != nil {
		return nil, err
	}
	if *record {
		cause := strings.Join(slices.Concat([]string{"kubectl"}, args[:words], flags.Args()), " ") + given
		if err := generate.Record(cause, objects...); err != nil {
			return nil, err
		}
	}
	return objects, setNamespace(*namespace, objects)
}

// clusterScoped reports whether a kind made here has no namespace.
func clusterScoped(kind string) bool {
	switch kind {
	case "Namespace", "PriorityClass", "ClusterRole", "ClusterRoleBinding":
		return true
	}
	return false
}

func setNamespace(namespace string, objects []runtime.Object) error {
	for _, obj := range objects {
		accessor, err := meta.Accessor(obj)
		if err != nil {
			return err
		}
		if !clusterScoped(obj.GetObjectKind().GroupVersionKind().Kind) {
			accessor.SetNamespace(namespace)
		}
	}
	return nil
}

// find returns how many words name the command, and its maker. It adds the command's flags to flags.
func find(args []string, flags *pflag.FlagSet) (int, maker, error) {
	commands := map[string]func(*pflag.FlagSet) maker{
		"run": run, "expose": expose,
		"create deployment": deployment, "create job": job, "create cronjob": cronJob, "create ingress": ingress,
		"create configmap": configMap, "create secret generic": secret, "create secret tls": tlsSecret,
		"create secret docker-registry": dockerSecret,
		"create namespace":              namespace, "create serviceaccount": serviceAccount, "create quota": quota,
		"create poddisruptionbudget": budget, "create priorityclass": priorityClass,
		"create role": role, "create clusterrole": clusterRole,
		"create rolebinding": roleBinding, "create clusterrolebinding": clusterRoleBinding,
		"create service clusterip": service(corev1.ServiceTypeClusterIP), "create service nodeport": service(corev1.ServiceTypeNodePort),
		"create service loadbalancer": service(corev1.ServiceTypeLoadBalancer), "create service externalname": service(corev1.ServiceTypeExternalName),
	}
	words := ""
	for i := range min(len(args), 3) {
		if i > 0 {
			words += " "
		}
		words += args[i]
		if command := commands[words]; command != nil {
			return i + 1, command(flags), nil
		}
	}
	return 0, nil, fmt.Errorf("unknown command %q", args)
}

// one returns an object as a list.
func one[T runtime.Object](obj T, err error) ([]runtime.Object, error) {
	if err != nil {
		return nil, err
	}
	return []runtime.Object{obj}, nil
}

// load reads an object from a file.
func load(path string) (runtime.Object, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if err := boundedyaml.Check(data, boundedyaml.Limit); err != nil {
		return nil, err
	}
	obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(data, nil, nil)
	return obj, err
}

func run(f *pflag.FlagSet) maker {
	var o generate.RunOptions
	c := &o.Container
	f.StringVar(&c.Image, "image", "", "")
	f.StringArrayVar(&c.Env, "env", nil, "")
	f.Int32Var(&c.Port, "port", 0, "")
	f.BoolVar(&c.Command, "command", false, "")
	f.StringVar(&c.ImagePullPolicy, "image-pull-policy", "", "")
	f.BoolVar(&c.Privileged, "privileged", false, "")
	f.BoolVarP(&c.Stdin, "stdin", "i", false, "")
	f.BoolVarP(&c.TTY, "tty", "t", false, "")
	f.BoolVar(&c.LeaveStdinOpen, "leave-stdin-open", false, "")
	f.Bool("attach", false, "")
	f.StringVarP(&o.Labels, "labels", "l", "", "")
	f.StringArrayVar(&o.Annotations, "annotations", nil, "")
	f.BoolVar(&o.Expose, "expose", false, "")
	f.StringVar(&o.Restart, "restart", "", "")
	f.StringVar(&o.Generator, "generator", generate.GeneratorPod, "") // kubectl's current one
	return func(name string, rest []string) ([]runtime.Object, error) {
		c.Args = rest
		return generate.Run(name, o)
	}
}

func expose(f *pflag.FlagSet) maker {
	var o generate.ExposeOptions
	file := f.StringP("filename", "f", "", "")
	for name, to := range map[string]*string{
		"name": &o.Name, "port": &o.Port, "target-port": &o.TargetPort, "protocol": &o.Protocol, "selector": &o.Selector,
		"type": &o.Type, "cluster-ip": &o.ClusterIP, "external-ip": &o.ExternalIP,
		"load-balancer-ip": &o.LoadBalancerIP, "session-affinity": &o.SessionAffinity,
	} {
		f.StringVar(to, name, "", "")
	}
	f.StringVarP(&o.Labels, "labels", "l", "", "")
	return func(string, []string) ([]runtime.Object, error) {
		obj, err := load(*file)
		if err != nil {
			return nil, err
		}
		return one(generate.Expose(obj, o))
	}
}

func deployment(f *pflag.FlagSet) maker {
	var o generate.DeploymentOptions
	f.StringSliceVar(&o.Images, "image", nil, "")
	replicas := f.Int32("replicas", 1, "")
	f.Int32Var(&o.Port, "port", 0, "")
	return func(name string, rest []string) ([]runtime.Object, error) {
		o.Command, o.Replicas = rest, replicas
		return one(generate.Deployment(name, o))
	}
}

func job(f *pflag.FlagSet) maker {
	var o generate.JobOptions
	f.StringVar(&o.Image, "image", "", "")
	from := f.String("from-file", "", "") // kubectl's --from asks the server
	return func(name string, rest []string) ([]runtime.Object, error) {
		o.Command = rest
		if *from != "" {
			obj, err := load(*from)
			if err != nil {
				return nil, err
			}
			o.From, _ = obj.(*batchv1.CronJob)
		}
		return one(generate.Job(name, o))
	}
}

func cronJob(f *pflag.FlagSet) maker {
	var o generate.CronJobOptions
	f.StringVar(&o.Image, "image", "", "")
	f.StringVar(&o.Schedule, "schedule", "", "")
	f.StringVar(&o.Restart, "restart", "", "")
	return func(name string, rest []string) ([]runtime.Object, error) {
		o.Command = rest
		return one(generate.CronJob(name, o))
	}
}

func ingress(f *pflag.FlagSet) maker {
	var o generate.IngressOptions
	f.StringVar(&o.Class, "class", "", "")
	f.StringArrayVar(&o.Rules, "rule", nil, "")
	f.StringVar(&o.DefaultBackend, "default-backend", "", "")
	f.StringArrayVar(&o.Annotations, "annotation", nil, "")
	return func(name string, _ []string) ([]runtime.Object, error) { return one(generate.Ingress(name, o)) }
}
