package kubectlargs

import (
	"strings"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/client/generate"
)

func sources(f *pflag.FlagSet, s *generate.Sources) {
	f.StringArrayVar(&s.Literals, "from-literal", nil, "")
	f.StringSliceVar(&s.Files, "from-file", nil, "")
	f.StringSliceVar(&s.EnvFiles, "from-env-file", nil, "")
}

func configMap(f *pflag.FlagSet) maker {
	var o generate.ConfigMapOptions
	sources(f, &o.Sources)
	f.BoolVar(&o.AppendHash, "append-hash", false, "")
	return func(name string, _ []string) ([]runtime.Object, error) { return one(generate.ConfigMap(name, o)) }
}

func secret(f *pflag.FlagSet) maker {
	var o generate.SecretOptions
	sources(f, &o.Sources)
	f.StringVar((*string)(&o.Type), "type", "", "")
	f.BoolVar(&o.AppendHash, "append-hash", false, "")
	return func(name string, _ []string) ([]runtime.Object, error) { return one(generate.Secret(name, o)) }
}

func tlsSecret(f *pflag.FlagSet) maker {
	var o generate.TLSOptions
	f.StringVar(&o.Cert, "cert", "", "")
	f.StringVar(&o.Key, "key", "", "")
	f.BoolVar(&o.AppendHash, "append-hash", false, "")
	return func(name string, _ []string) ([]runtime.Object, error) { return one(generate.TLSSecret(name, o)) }
}

func dockerSecret(f *pflag.FlagSet) maker {
	var o generate.DockerOptions
	f.StringVar(&o.Username, "docker-username", "", "")
	f.StringVar(&o.Password, "docker-password", "", "")
	f.StringVar(&o.Email, "docker-email", "", "")
	f.StringVar(&o.Server, "docker-server", "", "")
	f.StringSliceVar(&o.Files, "from-file", nil, "")
	f.BoolVar(&o.AppendHash, "append-hash", false, "")
	return func(name string, _ []string) ([]runtime.Object, error) { return one(generate.DockerSecret(name, o)) }
}

func namespace(*pflag.FlagSet) maker {
	return func(name string, _ []string) ([]runtime.Object, error) { return one(generate.Namespace(name)) }
}

func serviceAccount(*pflag.FlagSet) maker {
	return func(name string, _ []string) ([]runtime.Object, error) {
		return one(generate.ServiceAccount(name))
	}
}

func quota(f *pflag.FlagSet) maker {
	var o generate.QuotaOptions
	f.StringVar(&o.Hard, "hard", "", "")
	f.StringVar(&o.Scopes, "scopes", "", "")
	return func(name string, _ []string) ([]runtime.Object, error) { return one(generate.Quota(name, o)) }
}

func budget(f *pflag.FlagSet) maker {
	var o generate.PodDisruptionBudgetOptions
	f.StringVar(&o.Selector, "selector", "", "")
	f.StringVar(&o.MinAvailable, "min-available", "", "")
	f.StringVar(&o.MaxUnavailable, "max-unavailable", "", "")
	return func(name string, _ []string) ([]runtime.Object, error) {
		return one(generate.PodDisruptionBudget(name, o))
	}
}

func priorityClass(f *pflag.FlagSet) maker {
	var o generate.PriorityClassOptions
	f.Int32Var(&o.Value, "value", 0, "")
	f.BoolVar(&o.GlobalDefault, "global-default", false, "")
	f.StringVar(&o.Description, "description", "", "")
	f.StringVar((*string)(&o.PreemptionPolicy), "preemption-policy", "", "")
	return func(name string, _ []string) ([]runtime.Object, error) {
		return one(generate.PriorityClass(name, o))
	}
}

func service(kind corev1.ServiceType) func(*pflag.FlagSet) maker {
	return func(f *pflag.FlagSet) maker {
		o := generate.ServiceOptions{Type: kind}
		f.StringSliceVar(&o.TCP, "tcp", nil, "")
		f.StringVar(&o.ClusterIP, "clusterip", "", "")
		f.Int32Var(&o.NodePort, "node-port", 0, "")
		f.StringVar(&o.ExternalName, "external-name", "", "")
		return func(name string, _ []string) ([]runtime.Object, error) { return one(generate.Service(name, o)) }
	}
}

func roleFlags(f *pflag.FlagSet, o *generate.RoleOptions) {
	o.Mapper = mapper{}
	f.StringSliceVar(&o.Verbs, "verb", nil, "")
	f.StringSliceVar(&o.Resources, "resource", nil, "")
	f.StringArrayVar(&o.ResourceNames, "resource-name", nil, "")
}

func role(f *pflag.FlagSet) maker {
	var o generate.RoleOptions
	roleFlags(f, &o)
	return func(name string, _ []string) ([]runtime.Object, error) { return one(generate.Role(name, o)) }
}

func clusterRole(f *pflag.FlagSet) maker {
	var o generate.ClusterRoleOptions
	roleFlags(f, &o.RoleOptions)
	f.StringSliceVar(&o.NonResourceURLs, "non-resource-url", nil, "")
	aggregation := f.StringSlice("aggregation-rule", nil, "") // kubectl's accumulates
	return func(name string, _ []string) ([]runtime.Object, error) {
		o.Aggregation = strings.Join(*aggregation, ",")
		return one(generate.ClusterRole(name, o))
	}
}

func bindingFlags(f *pflag.FlagSet, o *generate.BindingOptions) {
	f.StringVar(&o.Role, "role", "", "")
	f.StringVar(&o.ClusterRole, "clusterrole", "", "")
	f.StringArrayVar(&o.Users, "user", nil, "")
	f.StringArrayVar(&o.Groups, "group", nil, "")
	f.StringArrayVar(&o.ServiceAccounts, "serviceaccount", nil, "")
}

func roleBinding(f *pflag.FlagSet) maker {
	var o generate.BindingOptions
	bindingFlags(f, &o)
	return func(name string, _ []string) ([]runtime.Object, error) {
		return one(generate.RoleBinding(name, o))
	}
}

func clusterRoleBinding(f *pflag.FlagSet) maker {
	var o generate.BindingOptions
	bindingFlags(f, &o)
	return func(name string, _ []string) ([]runtime.Object, error) {
		return one(generate.ClusterRoleBinding(name, o))
	}
}

// mapper knows some resources that every server serves, by their names and short names.
type mapper struct{}

func (mapper) ResourceFor(partial schema.GroupVersionResource) (schema.GroupVersionResource, error) {
	for _, r := range []struct {
		group, name string
		short       []string
	}{
		{"", "pods", []string{"pod", "po"}}, {"", "services", []string{"service", "svc"}}, {"", "secrets", []string{"secret"}},
		{"", "serviceaccounts", []string{"serviceaccount", "sa"}}, {"", "nodes", []string{"node", "no"}},
		{"apps", "deployments", []string{"deployment", "deploy"}}, {"apps", "replicasets", []string{"replicaset", "rs"}},
		{"rbac.authorization.k8s.io", "roles", []string{"role"}}, {"rbac.authorization.k8s.io", "clusterroles", []string{"clusterrole"}},
	} {
		if partial.Group != "" && partial.Group != r.group {
			continue
		}
		for _, name := range append(r.short, r.name) {
			if name == partial.Resource {
				return schema.GroupVersionResource{Group: r.group, Version: "v1", Resource: r.name}, nil
			}
		}
	}
	return partial, &meta.NoResourceMatchError{PartialResource: partial}
}
