// Package serviceaccount is upstream's admission plugin ServiceAccount: every pod runs as an existing service
// account, by default "default"; the account's token, the cluster's CA certificate and the namespace's name are
// mounted into its containers as one projected volume; and a pod without image pull secrets gets the account's.
//
// Mirror pods, which represent what a node runs by itself, get none of this and may refer to neither service
// accounts nor secrets. A service account with the annotation kubernetes.io/enforce-mountable-secrets limits
// its pods to the secrets that it lists.
//
// # Errors
//
// Refusals are an admission.ErrForbidden. An account that is missing in the cache is read with Options.Live;
// the account "default", which a controller creates soon after its namespace, is read up to ten times, 100 ms
// apart, until the context ends.
//
// A Plugin is safe for concurrent use.
package serviceaccount
