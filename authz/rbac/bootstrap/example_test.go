package bootstrap_test

import (
	"fmt"

	"github.com/keelson-dev/keelson/authz/rbac/bootstrap"
)

func ExamplePolicy() {
	for _, role := range bootstrap.Policy().ClusterRoles {
		if role.Name == "system:kube-dns" {
			fmt.Println(role.Rules[0].Verbs, role.Rules[0].Resources)
		}
	}
	// Output: [list watch] [endpoints services]
}
