#include "support/host.h"

template class metaroce::RxRole<metaroce::test::Queues, metaroce::test::Host::RxIo>;
template class metaroce::TxRole<metaroce::test::Queues, metaroce::test::Host::TxIo,
                                metaroce::EcnAimd>;
