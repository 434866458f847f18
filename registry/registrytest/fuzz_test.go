package registrytest_test

import (
	"encoding/json"
	"testing"

	"github.com/keelson-dev/keelson/registry/registrytest"
)

// FuzzRules runs the rules of every kind on whatever decodes as an object of it.
func FuzzRules(f *testing.F) {
	for _, seed := range []string{
		`{"metadata":{"name":"x","namespace":"ns","labels":{"a":"b"}}}`,
		`{"spec":{"finalizers":["kubernetes"],"ports":[{"port":80,"targetPort":"x"}],"clusterIPs":["None",""]}}`,
		`{"spec":{"selector":{"matchExpressions":[{"operator":"In"}]},"template":{"spec":{"containers":[{}]}}}}`,
		`{"spec":{"selector":{"matchLabels":{"a":"b"}},"strategy":{"type":"RollingUpdate","rollingUpdate":{}}}}`,
		`{"subsets":[{"addresses":[{}],"ports":[{}]}],"endpoints":[{"addresses":["x"],"hints":{"forZones":[{}]}}],"ports":[{}]}`,
		`{"spec":{"taints":[{}],"podCIDRs":["x","y"],"configSource":{}},"status":{"capacity":{"a/b":"-1"},"config":{"active":{}}}}`,
		`{"spec":{"minAvailable":"x","maxUnavailable":1,"strategy":"a/b/c"},"data":{"a":null},"eventTime":"2020-01-01T00:00:00Z"}`,
		`{"type":"kubernetes.io/dockercfg","data":{".dockercfg":"e30="},"stringData":{"":""},"preemptionPolicy":"","value":5}`,
	} {
		f.Add([]byte(seed))
	}
	kinds := builtin()
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, k := range kinds {
			if k.Answer != nil {
				continue
			}
			raw, obj := k.New(), k.New()
			if json.Unmarshal(data, raw) != nil || json.Unmarshal(data, obj) != nil {
				continue
			}
			registrytest.Prepare(k, obj)
			if k.Rules.Validate != nil {
				_ = k.Rules.Validate(obj).ToAggregate()
			}
			_ = registrytest.Replace(k, "", raw, obj).ToAggregate()
			for view := range k.Sub.Views {
				_ = registrytest.Replace(k, view, k.New(), obj).ToAggregate()
			}
		}
	})
}
