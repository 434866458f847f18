package authorization_test

import (
	"context"
	"math/rand"
	"os"
	"testing"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	upstreamflow "k8s.io/apiserver/pkg/util/flowcontrol"
	fcrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/flowcontrol"
)

// flows makes schemas, levels and requests that are related.
type flows struct{ *rand.Rand }

func (f flows) pick(of ...string) string { return of[f.Intn(len(of))] }

// some returns a few of these, or all by a star.
func (f flows) some(of ...string) []string {
	if f.Intn(4) == 0 {
		return []string{"*"}
	}
	var out []string
	for range 1 + f.Intn(2) {
		out = append(out, f.pick(of...))
	}
	return out
}

func (f flows) user() string {
	return f.pick("ann", "bob", "system:serviceaccount:ns:a", "system:serviceaccount:ns:b", "system:serviceaccount:ns2:a", "system:serviceaccount:kube-system:a", "system:node:n", "system:kube-scheduler")
}

func (f flows) group() string {
	return f.pick("system:authenticated", "system:unauthenticated", "system:nodes", "system:masters", "g", "h")
}

func (f flows) verb() string      { return f.pick("get", "list", "watch", "create", "update", "post") }
func (f flows) apiGroup() string  { return f.pick("", "apps", "coordination.k8s.io") }
func (f flows) namespace() string { return f.pick("ns", "ns2", "kube-system") }
func (f flows) resource() string {
	return f.pick("pods", "nodes", "leases", "pods/log", "nodes/status", "deployments")
}
func (f flows) path() string {
	return f.pick("/", "/healthz", "/healthz/etcd", "/livez", "/version", "/api", "/api/v1", "/apis/apps", "/a/b/c", "/a")
}

func (f flows) subject() flowcontrolv1.Subject {
	switch f.Intn(3) {
	case 0:
		return flowcontrolv1.Subject{Kind: flowcontrolv1.SubjectKindUser, User: &flowcontrolv1.UserSubject{Name: f.pick("*", f.user(), f.user())}}
	case 1:
		return flowcontrolv1.Subject{Kind: flowcontrolv1.SubjectKindGroup, Group: &flowcontrolv1.GroupSubject{Name: f.pick("*", f.group(), f.group())}}
	}
	return flowcontrolv1.Subject{Kind: flowcontrolv1.SubjectKindServiceAccount, ServiceAccount: &flowcontrolv1.ServiceAccountSubject{
		Namespace: f.namespace(), Name: f.pick("*", "a", "b"),
	}}
}

func (f flows) rules() flowcontrolv1.PolicyRulesWithSubjects {
	var r flowcontrolv1.PolicyRulesWithSubjects
	for range 1 + f.Intn(2) {
		r.Subjects = append(r.Subjects, f.subject())
	}
	for range f.Intn(3) {
		rule := flowcontrolv1.ResourcePolicyRule{
			Verbs: f.some(f.verb(), f.verb()), APIGroups: f.some(f.apiGroup(), f.apiGroup()), Resources: f.some(f.resource(), f.resource()), ClusterScope: f.Intn(2) == 0,
		}
		if !rule.ClusterScope || f.Intn(2) == 0 {
			rule.Namespaces = f.some(f.namespace(), f.namespace())
		}
		r.ResourceRules = append(r.ResourceRules, rule)
	}
	for range f.Intn(3) {
		urls := f.some(f.path(), f.path(), "/api/*", "/a/*")
		r.NonResourceRules = append(r.NonResourceRules, flowcontrolv1.NonResourcePolicyRule{Verbs: f.some(f.verb(), f.verb()), NonResourceURLs: urls})
	}
	return r
}

// objects are random schemas and levels beside the defaults, of which some have no level.
func (f flows) objects() (schemas []*flowcontrolv1.FlowSchema, levels []*flowcontrolv1.PriorityLevelConfiguration) {
	if f.Intn(2) == 0 {
		mandatory, suggested := flowcontrol.DefaultSchemas()
		schemas = append(mandatory, suggested...)
		always, proposed := flowcontrol.DefaultLevels()
		levels = append(always, proposed...)
	}
	for i := range 1 + f.Intn(5) {
		shares := int32(f.Intn(30))
		l := &flowcontrolv1.PriorityLevelConfiguration{ObjectMeta: metav1.ObjectMeta{Name: string(rune('a' + i))}, Spec: flowcontrolv1.PriorityLevelConfigurationSpec{
			Type: flowcontrolv1.PriorityLevelEnablementLimited, Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{
				NominalConcurrencyShares: &shares, LimitResponse: flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeReject},
			},
		}}
		if f.Intn(2) == 0 {
			l.Spec.Limited.LimitResponse = flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeQueue, Queuing: &flowcontrolv1.QueuingConfiguration{
				Queues: 8, HandSize: int32(1 + f.Intn(9)), QueueLengthLimit: 5, // a hand of nine does not fit
			}}
		}
		levels = append(levels, l)
	}
	for range f.Intn(12) {
		s := &flowcontrolv1.FlowSchema{ObjectMeta: metav1.ObjectMeta{Name: f.pick("a", "b", "c", "d", "e", "f") + f.pick("", "1", "2", "3")}}
		s.Spec.PriorityLevelConfiguration.Name = f.pick("a", "b", "c", "d", "e", "exempt", "catch-all", "global-default")
		s.Spec.MatchingPrecedence = int32(3 + f.Intn(12)*1000)
		for range 1 + f.Intn(2) {
			s.Spec.Rules = append(s.Spec.Rules, f.rules())
		}
		if method := f.pick("", "ByUser", "ByNamespace"); method != "" {
			s.Spec.DistinguisherMethod = &flowcontrolv1.FlowDistinguisherMethod{Type: flowcontrolv1.FlowDistinguisherMethodType(method)}
		}
		known := false
		for _, other := range schemas {
			known = known || other.Name == s.Name
		}
		if !known {
			schemas = append(schemas, s)
		}
	}
	return schemas, levels
}

func (f flows) request() (authz.Attributes, upstreamflow.RequestDigest) {
	name := f.user()
	var groups []string
	for range f.Intn(3) {
		groups = append(groups, f.group())
	}
	a := authz.Attributes{User: &authn.Identity{Name: name, Groups: groups}, Verb: f.verb(), ResourceRequest: f.Intn(3) > 0}
	info := &request.RequestInfo{Verb: a.Verb, IsResourceRequest: a.ResourceRequest}
	if a.ResourceRequest {
		a.Group, a.Resource = f.apiGroup(), f.pick("pods", "nodes", "leases", "deployments")
		a.Subresource = f.pick("", "", "log", "status")
		a.Namespace = f.pick("", f.namespace(), f.namespace())
		info.APIGroup, info.Resource, info.Subresource, info.Namespace = a.Group, a.Resource, a.Subresource, a.Namespace
	} else {
		a.Path = f.path()
		info.Path = a.Path
	}
	return a, upstreamflow.RequestDigest{RequestInfo: info, User: &user.DefaultInfo{Name: name, Groups: groups}}
}

// classifier is upstream's controller.
type classifier struct{ upstreamflow.Interface }

// classify returns schema, level and flow. A flow counts only where the level has queues to choose from.
func (c classifier) classify(d upstreamflow.RequestDigest) (schema, level, flow string, queues bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond) // a level without seats may not serve it
	defer cancel()
	c.Handle(ctx, d, func(fs *flowcontrolv1.FlowSchema, pl *flowcontrolv1.PriorityLevelConfiguration, distinguisher string) {
		schema, level, flow = fs.Name, pl.Name, distinguisher
		queues = pl.Spec.Limited != nil && pl.Spec.Limited.LimitResponse.Queuing != nil
	}, func() fcrequest.WorkEstimate { return fcrequest.WorkEstimate{InitialSeats: 1} }, func(bool) {}, func() {})
	return schema, level, flow, queues
}

// canary is a user of whom a schema says that upstream has read all objects.
const canary = "canary"

func newClassifier(t *testing.T, schemas []*flowcontrolv1.FlowSchema, levels []*flowcontrolv1.PriorityLevelConfiguration) classifier {
	t.Helper()
	var objects []runtime.Object
	for _, s := range schemas {
		objects = append(objects, s)
	}
	for _, l := range levels {
		objects = append(objects, l)
	}
	client := fake.NewSimpleClientset(objects...) //nolint:staticcheck // the other one reads all of OpenAPI, which takes seconds
	factory := informers.NewSharedInformerFactory(client, 0)
	c := classifier{upstreamflow.New(factory, client.FlowcontrolV1(), 100)}
	stop := make(chan struct{})
	done := make(chan error, 1)
	factory.Start(stop)
	go func() { done <- c.Run(stop) }()
	t.Cleanup(func() {
		close(stop)
		if err := <-done; err != nil {
			t.Error(err)
		}
		factory.Shutdown()
	})
	probe := upstreamflow.RequestDigest{
		RequestInfo: &request.RequestInfo{Verb: "get", Path: "/canary"}, User: &user.DefaultInfo{Name: canary},
	}
	for range 6000 {
		if schema, _, _, _ := c.classify(probe); schema == canary {
			return c
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatal("upstream has not read the objects")
	return c
}

// TestMain has client-go list before it watches, as its fake client streams no lists.
func TestMain(m *testing.M) {
	if err := os.Setenv("KUBE_FEATURE_WatchListClient", "false"); err != nil {
		panic(err)
	}
	m.Run()
}

// TestFlows: requests belong to the same schemas, levels and flows.
func TestFlows(t *testing.T) {
	f := flows{rand.New(rand.NewSource(*seed))}
	const each = 500
	matched := map[string]int{}
	for range max(1, *requests/each) {
		t.Run("", func(t *testing.T) {
			schemas, levels := f.objects()
			all := []string{"*"}
			schemas = append(schemas, &flowcontrolv1.FlowSchema{ObjectMeta: metav1.ObjectMeta{Name: canary}, Spec: flowcontrolv1.FlowSchemaSpec{
				PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: canary}, MatchingPrecedence: 2,
				Rules: []flowcontrolv1.PolicyRulesWithSubjects{{
					Subjects:         []flowcontrolv1.Subject{{Kind: flowcontrolv1.SubjectKindUser, User: &flowcontrolv1.UserSubject{Name: canary}}},
					NonResourceRules: []flowcontrolv1.NonResourcePolicyRule{{Verbs: all, NonResourceURLs: all}},
				}},
			}})
			levels = append(levels, &flowcontrolv1.PriorityLevelConfiguration{ObjectMeta: metav1.ObjectMeta{Name: canary}, Spec: flowcontrolv1.PriorityLevelConfigurationSpec{
				Type: flowcontrolv1.PriorityLevelEnablementLimited, Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{
					NominalConcurrencyShares: new(int32(1)), LimitResponse: flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeReject},
				},
			}})
			theirs := newClassifier(t, schemas, levels)
			ours := flowcontrol.NewConfig(schemas, levels)
			for range each {
				a, digest := f.request()
				schema, level, flow, queues := theirs.classify(digest)
				got := ours.Classify(a)
				if got.Schema.Name != schema || got.Level.Name != level || queues && got.Flow != flow {
					t.Fatalf("%+v by %+v: %s, %s, %q; upstream %s, %s, %q", a, *a.User, got.Schema.Name, got.Level.Name, got.Flow, schema, level, flow)
				}
				matched[schema]++
			}
		})
	}
	t.Logf("%d schemas matched", len(matched))
	if *requests >= 50000 && len(matched) < 20 {
		t.Errorf("few schemas matched: %v", matched)
	}
}
