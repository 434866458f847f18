package client

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/keelson-dev/keelson/client/message"
	"github.com/keelson-dev/keelson/internal/kubectlargs"
)

// flagValues are valid and invalid values for the flags of a command.
type flagValues map[string][]string

var commands = map[string]flagValues{
	"run web": {
		"image": {"nginx", "r.example/a:1", "B", ""}, "port": {"80", "8080"}, "expose": {"true", "false"},
		"restart": {"Always", "Never", "OnFailure", "x"}, "env": {"A=1", "B=", "C", "_d=x=y"}, "labels": {"a=b", "a=b,c=d", "a", "a=b,"},
		"annotations": {"a=b", "a", "c=d=e"}, "image-pull-policy": {"Always", "x"}, "privileged": {"true", "false"},
		"command": {"true", "false"}, "record": {"true", "false"}, "namespace": {"shop"},
	},
	"create deployment web": {
		"image":    {"nginx", "r.example/a:1,b", "x@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
		"replicas": {"0", "5"}, "port": {"80"}, "namespace": {"shop"},
	},
	"create job j":     {"image": {"busybox"}, "namespace": {"shop"}},
	"create cronjob c": {"image": {"busybox"}, "schedule": {"@daily"}, "restart": {"Never", "OnFailure"}},
	"create ingress i": {
		"rule":            {"h/p=s:80", "h/p*=s:http,tls", "g/=s:80,tls=x", "/q=s:1,tls=x", "*.h/x=s:1,tls=y", "h", "h/p=s"},
		"default-backend": {"s:1", "s:http", "s"}, "class": {"x"}, "annotation": {"a=b", "c=d=e"},
	},
	"create configmap c": {
		"from-literal": {"a=b", "c=d=e", "f=", "a=c"}, "from-file": {"dir", "dir/one.txt", "k=dir/two", "k=dir", "none"},
		"from-env-file": {"values.env", "bad.env"}, "append-hash": {"true", "false"},
	},
	"create secret generic s": {
		"from-literal": {"a=b", "c=d=e", "f=", "a=c"}, "from-file": {"dir", "dir/one.txt", "k=dir/two", "k=dir", "none"},
		"from-env-file": {"values.env", "bad.env"}, "append-hash": {"true", "false"}, "type": {"x"},
	},
	"create secret docker-registry s": {
		"docker-username": {"u"}, "docker-password": {"p", `a"b`}, "docker-email": {"e@x"}, "docker-server": {"r.example"},
		"from-file": {"docker.json", "dir"}, "append-hash": {"true"},
	},
	"create quota q":               {"hard": {"cpu=1", "pods=1,memory=1Gi", "cpu"}, "scopes": {"BestEffort", "a,b", "a,"}},
	"create poddisruptionbudget p": {"selector": {"a=b", "a=b,c=d"}, "min-available": {"1", "5%", "x"}, "max-unavailable": {"2", "%"}},
	"create priorityclass p":       {"value": {"7", "-7"}, "global-default": {"true"}, "description": {"d"}, "preemption-policy": {"Never", "x"}},
	"create role r":                {"verb": {"get", "get,list", "*", "bind", "frobnicate"}, "resource": {"pods", "deploy", "pods/log,svc", "*", "roles", "foos", "rs.apps/scale"}, "resource-name": {"a", "b"}},
	"create clusterrole r": {
		"verb": {"get", "get,post", "*", "bind"}, "resource": {"nodes", "clusterroles", "pods", "foos"},
		"non-resource-url": {"/x", "/x/*", "*", "/*x", "x"}, "aggregation-rule": {"a=b", "a=b,c=d"},
	},
	"create rolebinding b":        {"role": {"r"}, "clusterrole": {"c"}, "user": {"u", "v"}, "group": {"g"}, "serviceaccount": {"n:s", "n"}},
	"create clusterrolebinding b": {"clusterrole": {"c"}, "user": {"u", "v"}, "group": {"g"}, "serviceaccount": {"n:s", "n"}},
	"create service clusterip s":  {"tcp": {"80", "80:81", "443:https", "x", "0"}, "clusterip": {"None", "10.0.0.9"}},
	"create service nodeport s":   {"tcp": {"80", "80:81", "443:https"}, "node-port": {"30000"}},
	"expose": {
		"filename": {"deployment.yaml", "expressions.yaml", "replicaset.yaml", "bare.yaml", "service.yaml", "node.yaml"},
		"port":     {"80", "53", "80,53", "1,2"}, "target-port": {"8080", "http"}, "protocol": {"TCP", "UDP"}, "name": {"other"},
		"selector": {"a=b", "a"}, "labels": {"x=y"}, "type": {"NodePort", "LoadBalancer"}, "cluster-ip": {"None", "10.0.0.9"},
		"external-ip": {"192.0.2.1"}, "load-balancer-ip": {"192.0.2.2"}, "session-affinity": {"None", "ClientIP", "x"}, "record": {"true"},
	},
}

// required are flags without which kubectl stops before it checks the others.
var required = map[string][]string{
	"run web": {"image"}, "create deployment web": {"image"}, "create cronjob c": {"image", "schedule"}, "expose": {"filename"},
	"create clusterrolebinding b": {"clusterrole"},
}

// commandLine makes a command with random flags, and sometimes arguments.
func commandLine(r *rapid.T) []string {
	name := rapid.SampledFrom(sortedKeys(commands)).Draw(r, "command")
	args := strings.Fields(name)
	for _, flag := range sortedKeys(commands[name]) {
		times := rapid.IntRange(0, 2).Draw(r, flag)
		for _, must := range required[name] {
			if flag == must {
				times = 1
			}
		}
		for range times {
			args = append(args, "--"+flag+"="+rapid.SampledFrom(commands[name][flag]).Draw(r, flag))
		}
	}
	if rapid.Bool().Draw(r, "arguments") && (strings.HasPrefix(name, "run") || strings.Contains(name, "job") || strings.Contains(name, "deployment")) {
		args = append(args, "--", "sleep", "1")
	}
	return args
}

// Random command lines make the same objects, or fail with the same errors.
func TestGenerateRandom(t *testing.T) {
	k := newKubectl(t)
	t.Chdir(generated)
	for range *rounds {
		rapid.Check(t, func(r *rapid.T) { compare(r, k, commandLine(r)) })
	}
}

// compare runs a command line on both sides.
func compare(r *rapid.T, k *kubectl, args []string) {
	out, failure := k.run(args, "--dry-run=client", "--output=yaml")
	objects, err := kubectlargs.Objects(args)
	if got := message.Of(err); got != failure && !ownWords(got, failure) {
		r.Fatalf("%q\nfails with %q,\nkubectl with %q", args, got, failure)
	}
	if err != nil {
		return
	}
	var want, got []any
	for doc := range strings.SplitSeq(withoutNotes(out), "\n---\n") {
		want = append(want, decoded(r, []byte(doc)))
	}
	for _, obj := range objects {
		data, err := json.Marshal(obj)
		if err != nil {
			r.Fatal(err)
		}
		got = append(got, decoded(r, data))
	}
	if !reflect.DeepEqual(want, got) {
		r.Fatalf("%q\nmakes   %v,\nkubectl %v", args, got, want)
	}
}

// ownWords reports whether our error is right although it differs from kubectl's. If there are several mistakes, either
// may be reported first; answers.txt has the error for each mistake alone.
func ownWords(ours, kubectls string) bool {
	if kubectls == "" { // kubectl leaves it to the server
		return strings.Contains(ours, "invalid image name") || strings.Contains(ours, "invalid label")
	}
	return ours != ""
}

func decoded(r *rapid.T, data []byte) any {
	var out any
	if err := yaml.Unmarshal(data, &out); err != nil {
		r.Fatal(err)
	}
	return out
}
