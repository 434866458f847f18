package apiserver

import (
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
)

// nodeOf returns the node that a user name stands for.
func nodeOf(user string) (string, bool) {
	name, ok := strings.CutPrefix(user, "system:node:")
	return name, ok && len(apivalidation.NameIsDNSSubdomain(name, false)) == 0
}

// accountOf returns the service account that a user name stands for.
func accountOf(user string) (namespace, name string, ok bool) {
	rest, ok := strings.CutPrefix(user, "system:serviceaccount:")
	if !ok {
		return "", "", false
	}
	namespace, name, ok = strings.Cut(rest, ":")
	return namespace, name, ok && len(apivalidation.ValidateNamespaceName(namespace, false)) == 0 &&
		len(apivalidation.ValidateServiceAccountName(name, false)) == 0
}
