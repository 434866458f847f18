package authorizationconfig_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/cluster/authorizationconfig"
)

// TestValidate has everything that is wrong with a configuration, in upstream's words.
func TestValidate(t *testing.T) {
	type (
		options   = authorizationconfig.WebhookOptions
		condition = authorizationconfig.Condition
	)
	file := serve(t, &policy{})
	link := func(kind, name string) authorizationconfig.Authorizer {
		return authorizationconfig.Authorizer{Type: kind, Name: name}
	}
	hook := func(change func(*options)) []authorizationconfig.Authorizer {
		o := &options{
			Timeout: metav1.Duration{Duration: time.Second}, SubjectAccessReviewVersion: "v1", FailurePolicy: "Deny",
			ConnectionInfo: authorizationconfig.Connection{Type: "KubeConfigFile", KubeConfigFile: &file},
		}
		change(o)
		return []authorizationconfig.Authorizer{{Type: "Webhook", Name: "policy", Webhook: o}}
	}
	timeout := func(d time.Duration) []authorizationconfig.Authorizer {
		return hook(func(o *options) { o.Timeout.Duration = d })
	}
	connection := func(kind string, file *string) []authorizationconfig.Authorizer {
		return hook(func(o *options) { o.ConnectionInfo = authorizationconfig.Connection{Type: kind, KubeConfigFile: file} })
	}
	matches := func(all ...condition) []authorizationconfig.Authorizer {
		return hook(func(o *options) { o.MatchConditionSubjectAccessReviewVersion, o.MatchConditions = "v1", all })
	}
	const at = "authorizers[0]."
	for name, tt := range map[string]struct {
		authorizers []authorizationconfig.Authorizer
		want        []string
	}{
		"good":    {append(hook(func(*options) {}), link("RBAC", "rbac"), link("Node", "node")), nil},
		"two":     {append(hook(func(*options) {}), authorizationconfig.Authorizer{Type: "Webhook", Name: "other", Webhook: hook(func(*options) {})[0].Webhook}), nil},
		"nothing": {nil, []string{"authorizers: Required value: at least one authorization mode must be defined"}},
		"no type": {[]authorizationconfig.Authorizer{link("", "x")}, []string{"authorizers[0].type: Required value", "expected name  for authorizer  instead of x"}},
		"unknown": {[]authorizationconfig.Authorizer{link("X", "x")}, []string{`authorizers[0].type: Unsupported value: "X": supported values: "ABAC", "AlwaysAllow", "AlwaysDeny", "Node", "RBAC", "Webhook"`}},
		"nameless": {[]authorizationconfig.Authorizer{{}, {Type: "X"}}, []string{
			"authorizers[0].type: Required value", `authorizers[1].type: Unsupported value: "X": supported values: "ABAC", "AlwaysAllow", "AlwaysDeny", "Node", "RBAC", "Webhook"`, "expected name x for authorizer X instead of ",
		}},
		"twice": {[]authorizationconfig.Authorizer{link("RBAC", "rbac"), link("RBAC", "rbac")}, []string{`authorizers[1].type: Duplicate value: "RBAC"`}},
		"names": {[]authorizationconfig.Authorizer{link("RBAC", ""), link("Node", "x"), link("AlwaysDeny", "x")}, []string{
			"authorizers[0].name: Required value", `authorizers[2].name: Duplicate value: "x"`,
			"expected name rbac for authorizer RBAC instead of ", "expected name node for authorizer Node instead of x", "expected name alwaysdeny for authorizer AlwaysDeny instead of x",
		}},
		"bad name": {[]authorizationconfig.Authorizer{{Type: "Webhook", Name: "x_", Webhook: hook(func(*options) {})[0].Webhook}}, []string{
			`authorizers[0].name: Invalid value: "x_": authorizer name is invalid: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character ` +
				`(e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`,
		}},
		"superfluous": {[]authorizationconfig.Authorizer{{Type: "RBAC", Name: "rbac", Webhook: &options{}}}, []string{at + `webhook: Invalid value: "non-null": may only be specified when type=Webhook`}},
		"missing":     {[]authorizationconfig.Authorizer{link("Webhook", "x")}, []string{at + "webhook: Required value: required when type=Webhook"}},

		"empty": {[]authorizationconfig.Authorizer{{Type: "Webhook", Name: "policy", Webhook: &options{}}}, []string{
			at + "timeout: Required value", at + "subjectAccessReviewVersion: Required value", at + "failurePolicy: Required value", at + "connectionInfo.type: Required value",
		}},
		"no patience":    {timeout(-1), []string{at + `timeout: Invalid value: "-1ns": must be > 0s and <= 30s`}},
		"least patience": {timeout(1), nil},
		"most patience":  {timeout(30 * time.Second), nil},
		"more patience":  {timeout(30*time.Second + 1), []string{at + `timeout: Invalid value: "30.000000001s": must be > 0s and <= 30s`}},
		"backwards": {hook(func(o *options) { o.AuthorizedTTL.Duration, o.UnauthorizedTTL.Duration = -1, -1 }), []string{
			at + `authorizedTTL: Invalid value: "-1ns": must be > 0s`, at + `unauthorizedTTL: Invalid value: "-1ns": must be > 0s`,
		}},
		"shortly": {hook(func(o *options) { o.AuthorizedTTL.Duration, o.UnauthorizedTTL.Duration = 1, 1 }), nil},
		"old":     {hook(func(o *options) { o.SubjectAccessReviewVersion = "v1beta1" }), nil},
		"choices": {hook(func(o *options) {
			o.SubjectAccessReviewVersion, o.FailurePolicy, o.MatchConditionSubjectAccessReviewVersion = "v2", "Allow", "v1beta1"
		}), []string{
			at + `subjectAccessReviewVersion: Unsupported value: "v2": supported values: "v1", "v1beta1"`, at + `matchConditionSubjectAccessReviewVersion: Unsupported value: "v1beta1": supported values: "v1"`,
			at + `failurePolicy: Unsupported value: "Allow": supported values: "NoOpinion", "Deny"`,
		}},
		"in cluster":  {connection("InClusterConfig", nil), []string{at + `connectionInfo.type: Unsupported value: "InClusterConfig": supported values: "KubeConfigFile"`}},
		"no file":     {connection("KubeConfigFile", nil), []string{at + "connectionInfo.kubeConfigFile: Required value"}},
		"empty file":  {connection("KubeConfigFile", new("")), []string{at + "connectionInfo.kubeConfigFile: Required value"}},
		"relative":    {connection("KubeConfigFile", new("x")), []string{at + `connectionInfo.kubeConfigFile: Invalid value: "x": must be an absolute path`}},
		"nowhere":     {connection("KubeConfigFile", new("/nowhere")), []string{at + `connectionInfo.kubeConfigFile: Invalid value: "/nowhere": error loading file: stat /nowhere: no such file or directory`}},
		"a directory": {connection("KubeConfigFile", new("/")), []string{at + `connectionInfo.kubeConfigFile: Invalid value: "/": must be a regular file`}},

		"conditions":   {matches(many(64)...), nil},
		"too many":     {matches(many(65)...), []string{at + "matchConditions: Too many: 65: must have at most 64 items"}},
		"unversioned":  {hook(func(o *options) { o.MatchConditions = []condition{{Expression: "true"}} }), []string{at + "matchConditionSubjectAccessReviewVersion: Required value: required if match conditions are specified"}},
		"no condition": {matches(condition{Expression: " "}, condition{Expression: "true"}, condition{Expression: "true"}), []string{at + "matchConditions[0].expression: Required value", at + `matchConditions[2].expression: Duplicate value: "true"`}},
		"no boolean":   {matches(condition{Expression: "1"}), []string{at + `matchConditions[0].expression: Invalid value: "1": must evaluate to bool but got int`}},
	} {
		_, err := authorizationconfig.New(authorizationconfig.Config{Authorizers: tt.authorizers}, authorizationconfig.Options{})
		got := ""
		if err != nil {
			got = err.Error()
		}
		for _, want := range tt.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %v does not say %s", name, err, want)
			}
			got = strings.Replace(got, want, "", 1)
		}
		if rest := strings.Trim(got, "[], \n"); rest != "" {
			t.Errorf("%s: also says %s", name, rest)
		}
	}
}

func many(n int) []authorizationconfig.Condition {
	var all []authorizationconfig.Condition
	for i := range n {
		all = append(all, authorizationconfig.Condition{Expression: "request.user == 'x" + strings.Repeat("x", i) + "'"})
	}
	return all
}

// TestDefaults: New fills in what is not said.
func TestDefaults(t *testing.T) {
	file := serve(t, &policy{})
	for _, set := range []authorizationconfig.WebhookOptions{
		{},
		{AuthorizedTTL: metav1.Duration{Duration: time.Second}, UnauthorizedTTL: metav1.Duration{Duration: time.Minute}, CacheAuthorizedRequests: new(false), CacheUnauthorizedRequests: new(false)},
	} {
		o := set
		o.Timeout.Duration, o.SubjectAccessReviewVersion, o.FailurePolicy = time.Second, "v1", "Deny"
		o.ConnectionInfo = authorizationconfig.Connection{Type: "KubeConfigFile", KubeConfigFile: &file}
		c := authorizationconfig.Config{Authorizers: []authorizationconfig.Authorizer{{Type: "Webhook", Name: "policy", Webhook: &o}}}
		if _, err := authorizationconfig.New(c, authorizationconfig.Options{}); err != nil {
			t.Fatal(err)
		}
		if set.AuthorizedTTL.Duration == 0 {
			set = authorizationconfig.WebhookOptions{
				AuthorizedTTL: metav1.Duration{Duration: 5 * time.Minute}, UnauthorizedTTL: metav1.Duration{Duration: 30 * time.Second}, CacheAuthorizedRequests: new(true), CacheUnauthorizedRequests: new(true),
			}
		}
		if o.AuthorizedTTL != set.AuthorizedTTL || o.UnauthorizedTTL != set.UnauthorizedTTL || *o.CacheAuthorizedRequests != *set.CacheAuthorizedRequests || *o.CacheUnauthorizedRequests != *set.CacheUnauthorizedRequests {
			t.Errorf("%+v", o)
		}
	}
}
