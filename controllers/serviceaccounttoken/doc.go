// Package serviceaccounttoken fills secrets of type kubernetes.io/service-account-token, like the
// serviceaccount-token-controller of kube-controller-manager: with a token of the account that the secret's annotation names,
// the namespace, and the authority of the API server. A secret whose account does not exist, or not any more, is deleted; the
// name of a deleted secret is removed from its account.
//
// A Controller starts no goroutines and is safe for concurrent use by the workers of a Loop, which retries what fails.
package serviceaccounttoken
