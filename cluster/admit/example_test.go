package admit_test

import (
	"context"
	"fmt"

	"github.com/keelson-dev/keelson/cluster/admit"
)

// What becomes of a pod in a namespace with a limit range.
func Example() {
	ctx := context.Background()
	state, err := admit.Decode([]byte(`
apiVersion: v1
kind: LimitRange
metadata: {name: limits}
spec: {limits: [{type: Container, max: {memory: 1Gi}, default: {memory: 128Mi}}]}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	w, err := admit.Start(ctx, state, admit.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer w.Close()
	for _, limits := range []string{"{}", "{memory: 2Gi}"} {
		r, err := w.Ask(ctx, admit.Request{Text: fmt.Appendf(nil, `
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: web, image: "nginx:1.27", resources: {limits: %s}}]}
`, limits)})
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, s := range r.Steps {
			if s.Plugin == "LimitRanger" {
				fmt.Println(s.Changes()[1])
			}
		}
		if r.Refusal != nil {
			fmt.Println(r.Refusal)
		}
	}
	// Output:
	// + spec.containers[0].resources.limits: {"memory":"128Mi"}
	// admit LimitRanger: pods "web" is forbidden: maximum memory usage per Container is 1Gi, but limit is 2Gi
}
